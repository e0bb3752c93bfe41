package page_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/observe/page"
)

// A page in a server that has other pages, too.
func Example() {
	ctx := context.Background()
	client, err := holdfast.New(memstore.New(), holdfast.Config{}) // a program has a store on a server
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)
	p, err := page.New(client, page.Config{Token: "correct horse battery"})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", p))
	server := httptest.NewServer(mux)
	server.Config.RegisterOnShutdown(p.Close)
	defer server.Close()
	defer p.Close()

	answer, err := http.Get(server.URL + "/locks/api/locks")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	fmt.Println(answer.Status, len(text) > 0, err)
	// Output: 401 Unauthorized true <nil>
}

// A server that knows its users decides itself who sees the locks.
func ExampleNew() {
	client, err := holdfast.New(memstore.New(), holdfast.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	p, err := page.New(client, page.Config{
		// As a proxy of yours sets it.
		Authorize: func(r *http.Request) bool { return r.Header.Get("X-User") == "ann" },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	for _, user := range []string{"ann", "bob"} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.Header.Set("X-User", user)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		fmt.Println(user, w.Code)
	}
	// Output:
	// ann 200
	// bob 403
}

// Close ends the streams of the viewers, for which a shutdown of the server would wait.
func ExamplePage_Close() {
	client, err := holdfast.New(memstore.New(), holdfast.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	p, err := page.New(client, page.Config{NoToken: true, KeepWatching: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &http.Server{Addr: "127.0.0.1:8380", Handler: p}
	server.RegisterOnShutdown(p.Close)
	fmt.Println(server.Shutdown(context.Background()))
	// Output: <nil>
}
