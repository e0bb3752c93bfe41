package target

import "github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"

// App has what all commands share.
type App struct {
	Say    *say.Printer
	Server Flags
	Log    say.Format
}
