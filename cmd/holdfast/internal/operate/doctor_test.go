package operate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Each primary of a Cluster has settings and users of its own.
func TestDoctorReadsEachPrimaryOfACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.Tenant(target.DefaultPrefix))
	s := opened(t, cluster.Nodes[0])
	nodes := nodesOf(t.Context(), s.Nodes[0], s.Targets[0])
	var addrs []string
	for i, f := range readAll(t.Context(), nodes, target.DefaultPrefix) {
		if f.Unreachable != nil || f.Probe == nil || !f.Probe.Cluster || !f.Local || len(f.Probe.Missing) > 0 {
			t.Errorf("%s: %+v", f.Address, f)
		}
		addrs = append(addrs, nodes[i].Address)
	}
	want := cluster.Addrs()[:3]
	slices.Sort(want)
	assert.EqualSlices(t, addrs, want, "the addresses that were read")
}

// A node that knows no primary is read itself: it says what is wrong.
func TestDoctorReadsANodeWithoutSlots(t *testing.T) {
	node := redistest.Start(t, redistest.Args("--cluster-enabled", "yes"), redistest.BusPort(),
		redistest.Tenant(target.DefaultPrefix), redistest.Allow("+info", "+cluster|info"))
	s := opened(t, node)
	facts := readAll(t.Context(), nodesOf(t.Context(), s.Nodes[0], s.Targets[0]), target.DefaultPrefix)
	report := doctor.Examine(doctor.Fleet{Nodes: facts})
	assert.False(t, len(facts) != 1 || report.Checks[0]["cluster"] != "problem", "%+v", report)
}

// opened is what a command has of a server.
func opened(t *testing.T, on *redistest.Server) *target.Server {
	t.Helper()
	t.Setenv("SSL_CERT_FILE", on.CAFile())
	a := &target.App{Say: &say.Printer{W: io.Discard}}
	a.Server.Add(pflag.NewFlagSet("test", pflag.ContinueOnError))
	a.Server.URLs = commandline.URLs{on.URL()}
	s, err := a.Open(holdfast.Config{})
	assert.Must(t, err)
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func TestDoctorFailsOnlyIfNobodyAnswers(t *testing.T) {
	down := doctor.Facts{Unreachable: io.EOF}
	assert.NoError(t, nobody([]doctor.Facts{down, {}}))
	assert.Is(t, nobody([]doctor.Facts{down, down}), io.EOF)
}

// Why a server could not be read is in the error of the first request: nothing is asked again.
func TestDoctorKnowsWhyARequestFailed(t *testing.T) {
	untrusted := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	refused, ok := errors.AsType[*holdfast.ServerError](known(fmt.Errorf("dial: %w", untrusted)))
	assert.True(t, ok && refused.Code == "TLS", "%v", refused)
	assert.Is(t, known(io.EOF), holdfast.ErrUnreachable)
}

// A server of several that runs, and whose TLS fails, is not to be started.
func TestDoctorSaysWhyOneOfSeveralServersCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		err       error
		secure    bool
		fact, fix string
	}{
		{&holdfast.ServerError{Code: "TLS", Message: "TLS tls: failed to verify certificate: " +
			"x509: certificate signed by unknown authority"}, true,
			"TLS fails: failed to verify certificate: x509: certificate signed by unknown authority",
			"name the authority with --cacert"},
		{io.EOF, false, "no server answers: " + target.HungUp,
			"start the server, or correct its address; if it has TLS, write rediss:// in place of redis://"},
		{io.EOF, true, "no server answers: " + target.HungUp, "start the server, or correct its address"},
	} {
		f := doctor.Facts{Unreachable: c.err}
		unreached(&f, c.secure)
		found := doctor.Examine(doctor.Fleet{Nodes: []doctor.Facts{f, {}}, Quorum: true}).Findings[0]
		assert.Equal(t, found.Fact+"\n"+found.Fix, c.fact+"\n"+c.fix, "%v", c.err)
	}
}
