package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"strconv"

	"github.com/holdfast-go/holdfast"
)

// evictRequest is what a viewer sends to evict a holder. All fields but Job and AtOnce are required.
type evictRequest struct {
	Name   string `json:"name"`
	Typed  string `json:"typed"` // the name, as the viewer typed it
	By     string `json:"by"`    // not believed if Config.Who names the viewer
	Reason string `json:"reason"`
	Token  string `json:"token"` // of the hold that the viewer saw
	Job    bool   `json:"job"`   // it is the run of the job of that name
	AtOnce bool   `json:"at_once"`
}

func (p *Page) evict(w http.ResponseWriter, r *http.Request) {
	if !p.cfg.AllowEvict {
		answerError(w, http.StatusForbidden, "this page is not set up to evict holders",
			"start it with --allow-evict, or use holdfast evict")
		return
	}
	if accessOf(r).role < evictor {
		answerError(w, http.StatusForbidden, "your token lets you see the locks, and not evict",
			"log in with the other token")
		return
	}
	// A form of another site cannot have this type.
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		answerError(w, http.StatusUnsupportedMediaType, "the request is not application/json", "")
		return
	}
	var e evictRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&e); err != nil {
		answerBadBody(w, err)
		return
	}
	if p.cfg.Who != nil {
		if e.By = p.cfg.Who(r); e.By == "" {
			answerError(w, http.StatusForbidden, "nobody has said who you are, so you may not evict",
				"open the page through the proxy that knows you")
			return
		}
	}
	token, err := strconv.ParseUint(e.Token, 10, 64)
	switch {
	case e.Name == "" || e.Typed != e.Name:
		answerError(w, http.StatusBadRequest, "the typed name is not the lock's name", "")
		return
	case err != nil || token == 0:
		answerError(w, http.StatusBadRequest, "the token is missing: it says which hold you mean", "")
		return
	case e.By == "" || e.Reason == "":
		answerError(w, http.StatusBadRequest, "your name or the reason is missing: others will want to know both", "")
		return
	}
	eviction := holdfast.Eviction{By: e.By, Reason: e.Reason, Token: token, Job: e.Job, AtOnce: e.AtOnce}
	n, err := p.client.Evict(r.Context(), e.Name, eviction)
	p.watcher.hurry()
	p.cfg.Logger.Info("page: eviction", "lock", e.Name, "job", e.Job, "by", e.By, "reason", e.Reason, "token", e.Token,
		"at once", e.AtOnce,
		"from", p.cfg.clientOf(r), "holds", n, "err", err)
	switch {
	case err != nil:
		p.answerFailure(w, err)
	case n == 0:
		answerError(w, http.StatusConflict, "nothing was evicted: no holder has this token any more",
			"check who holds the lock now")
	case e.AtOnce:
		answer(w, http.StatusOK, map[string]int{"ended": n})
	default:
		answer(w, http.StatusOK, map[string]int{"asked": n})
	}
}

// answerBadBody answers that a body cannot be read as JSON, in the words of the API.
func answerBadBody(w http.ResponseWriter, err error) {
	const form = "the request is not JSON of the right form"
	var network net.Error
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		answerError(w, http.StatusRequestEntityTooLarge,
			fmt.Sprintf("the request is longer than %d bytes", maxBody), "")
	case errors.As(err, &network) && network.Timeout():
		answerError(w, http.StatusRequestTimeout, "the request took too long to arrive", "send it again")
	case errors.As(err, &wrong) && wrong.Field != "":
		answerError(w, http.StatusBadRequest, fmt.Sprintf("%s: %q is a %s", form, wrong.Field, wrong.Value),
			"docs/page.md has the fields")
	default:
		answerError(w, http.StatusBadRequest, form, "docs/page.md has the fields")
	}
}
