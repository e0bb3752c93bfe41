package audit

import "github.com/holdfast-go/holdfast/script"

// Noted is a script with its notes.
func Noted(action *script.Script, channel string) *script.Script {
	return made(action, action.Declaration()+noted(action, channel))
}
