package suite_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/verify/fault"
)

func TestDurable(t *testing.T)  { run(t, fault.Durable, 30*time.Second) }
func TestSentinel(t *testing.T) { run(t, fault.Sentinel, 40*time.Second) }
func TestCluster(t *testing.T)  { run(t, fault.Cluster, 40*time.Second) }
