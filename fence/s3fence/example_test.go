package s3fence_test

import (
	"context"
	"log"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/fence/objectfence"
	"github.com/holdfast-go/holdfast/fence/s3fence"
)

// Of the program: the client of the AWS SDK.
var (
	ctx    = context.Background()
	client *s3.Client
	token  uint64 // of a lease
)

func ExampleBucket_Probe() {
	bucket := s3fence.Bucket{Client: client, Name: "billing"}
	if err := bucket.Probe(ctx, "probes/"); err != nil {
		log.Fatal(err)
	}
	guard := objectfence.Guard{Bucket: bucket}
	log.Print(guard.Put(ctx, "invoice/42", token, []byte(`{"paid": true}`)))
}

func ExampleBucket_Get() {
	bucket := s3fence.Bucket{Client: client, Name: "billing"}
	body, etag, err := bucket.Get(ctx, "invoice/42") // a Guard calls it
	log.Print(len(body), etag, err)
}

func ExampleBucket_Put() {
	bucket := s3fence.Bucket{Client: client, Name: "billing"}
	err := bucket.Put(ctx, "invoice/42", []byte("new"), "") // a Guard calls it; "": only if there is none
	log.Print(err)
}
