module github.com/holdfast-go/holdfast/compat/redsync

go 1.25.0

require github.com/holdfast-go/holdfast v0.0.0

replace github.com/holdfast-go/holdfast => ../..
