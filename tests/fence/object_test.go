package fence_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/objectfence"
	"github.com/holdfast-go/holdfast/fence/s3fence"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/servertest"
)

// objects is the S3 server of the tests.
var objects = start(servertest.VersityGW)

// s3Client is a client of an S3 server.
func s3Client(addr string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String("http://" + addr), Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(servertest.VersityGW.Superuser, servertest.Secret, ""),
	})
}

// newBucket makes an empty bucket, and returns the address of its server.
func newBucket(t *testing.T) (addr string, b s3fence.Bucket) {
	t.Helper()
	server, err := objects()
	assert.Must(t, err)
	b = s3fence.Bucket{Client: s3Client(server.Addr), Name: fmt.Sprintf("bucket%d", created.Add(1))}
	assert.Must(t, assert.Err(b.Client.CreateBucket(within(t), &s3.CreateBucketInput{Bucket: &b.Name})))
	return server.Addr, b
}

func TestAnObjectInS3RefusesOlderTokens(t *testing.T) {
	t.Parallel()
	_, bucket := newBucket(t)
	guard := objectfence.Guard{Bucket: bucket}
	_, err := guard.Get(within(t), "dir/a b")
	want(t, "an object that is not there", err, objectfence.ErrNotFound)
	for _, c := range []struct {
		token uint64
		err   error
	}{{5, nil}, {5, nil}, {4, fence.ErrStale}, {7, nil}, {6, fence.ErrStale}} {
		want(t, "write", guard.Put(within(t), "dir/a b", c.token, []byte("content")), c.err)
	}
	got, err := guard.Get(within(t), "dir/a b")
	assert.True(t, string(got) == "content" && err == nil, "got %q, %v", got, err)
	seen, err := guard.Seen(within(t), "dir/a b")
	assert.True(t, seen == 7 && err == nil, "seen %d, %v", seen, err)
	want(t, "Reset", guard.Reset(within(t), "dir/a b"), nil)
	want(t, "a low token after a reset", guard.Put(within(t), "dir/a b", 1, nil), nil)
	missing := s3fence.Bucket{Client: bucket.Client, Name: "missing"}
	assert.True(t, (objectfence.Guard{Bucket: missing}).Put(within(t), "a", 1, nil) != nil,
		"a write to a bucket that is not there succeeds")
}

// What the frame is for: the server names versions by their content, and the metadata of an object do
// not count.
func TestS3NamesEqualContentsAlike(t *testing.T) {
	t.Parallel()
	_, bucket := newBucket(t)
	etags := map[string]bool{}
	for _, token := range []string{"5", "6"} {
		answer, err := bucket.Client.PutObject(within(t), &s3.PutObjectInput{
			Bucket: &bucket.Name, Key: aws.String("plain"), Metadata: map[string]string{"token": token},
		})
		assert.Must(t, err)
		etags[aws.ToString(answer.ETag)] = true
	}
	assert.Equal(t, len(etags), 1, "versions of two tokens in the metadata: if more, the metadata would do")
	guard := objectfence.Guard{Bucket: bucket}
	versions := map[string]bool{}
	for range 2 {
		want(t, "write", guard.Put(within(t), "guarded", 5, []byte("same")), nil)
		_, version, err := bucket.Get(within(t), "guarded")
		want(t, "read", err, nil)
		versions[version] = true
	}
	assert.Equal(t, len(versions), 2, "versions of two guarded writes")
}

func TestConcurrentUpdatesOfAnObjectInS3LoseNothing(t *testing.T) {
	t.Parallel()
	_, bucket := newBucket(t)
	guard := objectfence.Guard{Bucket: bucket}
	const writers, each = 4, 5
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				want(t, "Update", guard.Update(within(t), "n", 5, func(old []byte) ([]byte, error) {
					return append(old, 'x'), nil
				}), nil)
			}
		})
	}
	wg.Wait()
	got, err := guard.Get(within(t), "n")
	assert.True(t, len(got) == writers*each && err == nil, "%d updates, %v", len(got), err)
}

// A store that ignores the conditions is found out, and one that keeps them is not.
func TestAProbeFindsAStoreWithoutConditions(t *testing.T) {
	t.Parallel()
	_, bucket := newBucket(t)
	want(t, "Probe", bucket.Probe(within(t), "p/"), nil)
	left, err := bucket.Client.ListObjectsV2(within(t), &s3.ListObjectsV2Input{Bucket: &bucket.Name})
	assert.True(t, err == nil && len(left.Contents) == 0,
		"a probe leaves %v, %v; want nothing", left, err)
	for what, c := range map[string]struct {
		etag func(s string) string
		keep func(r *http.Request, now string) bool // the condition holds
		err  bool
	}{
		"one that keeps them":          {quote, keeps, false},
		"one that ignores them":        {quote, func(*http.Request, string) bool { return true }, true},
		"one that ignores If-Match":    {quote, keepsNoneMatch, true},
		"one that accepts no If-Match": {quote, func(r *http.Request, now string) bool { return now == "" }, true},
		"one that names by size":       {func(s string) string { return fmt.Sprintf(`"%d"`, len(s)) }, keeps, true},
		"one that names no version":    {func(string) string { return "" }, keeps, true},
	} {
		server := httptest.NewServer(&liar{etag: c.etag, keep: c.keep})
		defer server.Close()
		other := s3fence.Bucket{Client: s3Client(server.Listener.Addr().String()), Name: "b"}
		err := other.Probe(within(t), "p/")
		assert.Equal(t, err != nil, c.err, "%s is found out: %v", what, err)
	}
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

func keeps(r *http.Request, now string) bool {
	return keepsNoneMatch(r, now) && (r.Header.Get("If-Match") == "" || r.Header.Get("If-Match") == now)
}

func keepsNoneMatch(r *http.Request, now string) bool {
	return r.Header.Get("If-None-Match") == "" || now == ""
}

// liar is an S3 server for one object.
type liar struct {
	etag func(string) string
	keep func(r *http.Request, now string) bool

	mu     sync.Mutex
	object string
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := ""
	if l.object != "" {
		now = l.etag(l.object)
	}
	switch r.Method {
	case http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil || !l.keep(r, now) {
			http.Error(w, "<Error><Code>PreconditionFailed</Code></Error>", http.StatusPreconditionFailed)
			return
		}
		l.object = string(body)
	case http.MethodDelete:
		l.object = ""
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if tag := l.etag(l.object); tag != "" {
		w.Header().Set("ETag", tag)
	}
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, l.object)
	}
}
