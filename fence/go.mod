module github.com/holdfast-go/holdfast/fence

go 1.25.0

require github.com/holdfast-go/holdfast v0.0.0

// Nothing is published yet: the modules of this repository are taken from the
// tree beside this one, with and without the workspace.
replace github.com/holdfast-go/holdfast => ../
