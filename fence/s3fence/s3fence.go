// Package s3fence is the [objectfence.Bucket] for S3, and for stores that speak its protocol, with the
// AWS SDK for Go.
//
//	client := s3.NewFromConfig(cfg)
//	guard := objectfence.Guard{Bucket: s3fence.Bucket{Client: client, Name: "billing"}}
//
// The store must know the conditions If-Match and If-None-Match of PutObject, and keep them when
// several writers come at once. S3 does. A store that ignores the conditions guards nothing; call
// [Bucket.Probe] once to find out.
package s3fence

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/holdfast-go/holdfast/fence/objectfence"
)

// Bucket is a bucket of S3.
type Bucket struct {
	Client *s3.Client
	Name   string
}

var _ objectfence.Bucket = Bucket{}

// Get implements [objectfence.Bucket].
func (b Bucket) Get(ctx context.Context, key string) (body []byte, version string, err error) {
	answer, err := b.Client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.Name, Key: &key})
	if hasCode(err, "NoSuchKey", "NotFound") {
		return nil, "", objectfence.ErrNotFound
	}
	if err != nil {
		return nil, "", err
	}
	body, err = io.ReadAll(answer.Body)
	return body, aws.ToString(answer.ETag), errors.Join(err, answer.Body.Close())
}

// Put implements [objectfence.Bucket].
func (b Bucket) Put(ctx context.Context, key string, body []byte, version string) error {
	input := &s3.PutObjectInput{Bucket: &b.Name, Key: &key, Body: bytes.NewReader(body)}
	if version == "" {
		input.IfNoneMatch = aws.String("*")
	} else {
		input.IfMatch = &version
	}
	_, err := b.Client.PutObject(ctx, input)
	// A conflict is a condition that several writers had at once. NoSuchKey: the object was deleted.
	if hasCode(err, "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey") {
		return objectfence.ErrChanged
	}
	return err
}

func hasCode(err error, codes ...string) bool {
	var refused smithy.APIError
	if errors.As(err, &refused) {
		for _, code := range codes {
			if refused.ErrorCode() == code {
				return true
			}
		}
	}
	return false
}

// Probe returns an error if the store does not keep the conditions, or gives two versions of an object one ETag, as
// one that makes it of the size and the time does. It writes a small object under prefix and deletes it.
func (b Bucket) Probe(ctx context.Context, prefix string) (err error) {
	key := prefix + "probe-" + rand.Text()
	if err := b.Put(ctx, key, []byte("1"), ""); err != nil {
		return err
	}
	defer func() {
		_, gone := b.Client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.Name, Key: &key})
		err = errors.Join(err, gone)
	}()
	_, version, err := b.Get(ctx, key)
	if err != nil {
		return err
	}
	if err := b.Put(ctx, key, []byte("2"), version); err != nil {
		return fmt.Errorf("s3fence: the store refuses the version %q that it has just named: "+
			"it cannot guard objects: %w", version, err)
	}
	for _, old := range []string{"", version} {
		if err := b.Put(ctx, key, []byte("3"), old); !errors.Is(err, objectfence.ErrChanged) {
			return errors.Join(fmt.Errorf("s3fence: the store ignores the conditions of PutObject, or names two "+
				"versions alike: it cannot guard objects (version %q)", old), err)
		}
	}
	return nil
}
