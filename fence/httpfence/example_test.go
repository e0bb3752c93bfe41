package httpfence_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/fence/sqlfence"
)

// Of the program.
var (
	ctx    = context.Background()
	db     *sql.DB
	mutex  *holdfast.Mutex
	client *holdfast.Client
	url    = "https://billing.example/invoices/42"
)

func ExampleGuard_Handler() {
	guard := &httpfence.Guard{}
	service := httptest.NewServer(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "written")
	})))
	defer service.Close()
	for _, token := range []uint64{7, 8, 7} {
		r, err := http.NewRequest(http.MethodPut, service.URL+"/invoices/42", nil)
		if err != nil {
			log.Fatal(err)
		}
		httpfence.Set(r, token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
		fmt.Println(answer.Status, httpfence.Refused(answer))
	}
	// Output:
	// 200 OK <nil>
	// 200 OK <nil>
	// 412 Precondition Failed fence: /invoices/42 has seen token 8: token 7 is stale
}

func ExampleAsk_Raise() {
	// The callers acquire the lock "invoice/42" with the option Checked.
	guard := &httpfence.Guard{
		Memory:   httpfence.Ask(client.Check),
		Resource: func(r *http.Request) string { return "invoice/" + r.PathValue("id") },
	}
	http.Handle("PUT /checked/invoices/{id}", guard.Handler(http.NotFoundHandler()))
}

func ExampleTransport_RoundTrip() {
	service := &http.Client{Transport: httpfence.Transport{}}
	err := mutex.Do(ctx, func(ctx context.Context) error { // this context belongs to the lease
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, url, nil)
		if err != nil {
			return err
		}
		answer, err := service.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		return httpfence.Refused(answer)
	})
	log.Print(err)
}

func ExampleRefused() {
	answer, err := http.Post(url, "", nil)
	if err == nil {
		defer answer.Body.Close()
		err = httpfence.Refused(answer)
	}
	log.Print(err)
}

func ExampleSet() {
	r, err := http.NewRequest(http.MethodDelete, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	httpfence.Set(r, 1794132000000000<<10)
	fmt.Println(r.Header)
	// Output: map[Holdfast-Token:[1837191168000000000]]
}

func ExampleToken() {
	// Several instances of the service: the tokens are in the database, and the handler checks once
	// more in the transaction that writes.
	guard := sqlfence.Guard{Dialect: sqlfence.PostgreSQL}
	handler := func(w http.ResponseWriter, r *http.Request) {
		token, ok := httpfence.Token(r.Context())
		if !ok {
			return // a GET without a token
		}
		err := guard.Do(r.Context(), db, r.URL.Path, token, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(r.Context(), `UPDATE invoice SET paid = true WHERE id = 42`)
			return err
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	}
	service := &httpfence.Guard{Memory: guard.Memory(db)}
	http.Handle("/invoices/", service.Handler(http.HandlerFunc(handler)))
}

func ExampleGuard_Reset() {
	guard := &httpfence.Guard{}
	guard.Reset("/invoices/42") // all writers of the resource are stopped
}
