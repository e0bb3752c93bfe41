module github.com/holdfast-go/holdfast/integrate/cronlock

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.0.0
	github.com/robfig/cron/v3 v3.0.1
)

// Nothing is published yet: the modules of this repository are taken from the
// tree beside this one, with and without the workspace.
replace github.com/holdfast-go/holdfast => ../../
