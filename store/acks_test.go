package store_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/store"
)

func TestAnErrorSaysInWordsWhereAWriteHasArrived(t *testing.T) {
	for want, acks := range map[string]store.Acks{
		"nobody":                               {},
		"1 replica":                            {Replicas: 1},
		"the primary's disk, 1 replica's disk": {LocalAOF: 1, ReplicaAOF: 1},
		"2 replicas, 3 disks of replicas":      {Replicas: 2, ReplicaAOF: 3},
	} {
		assert.Equal(t, acks.String(), want, "%+v", acks)
	}
}
