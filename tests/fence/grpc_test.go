package fence_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	health_v1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
)

// What docs/fencing.md shows begins here.

var locks *holdfast.Client

func checked(ctx context.Context, call any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	sent := metadata.ValueFromIncomingContext(ctx, "holdfast-token")
	token, _ := strconv.ParseUint(strings.Join(sent, ","), 10, 64) // 0 if there is none: Check refuses it
	switch err := locks.Check(ctx, "billing", token); {
	case err == nil:
		return handle(ctx, call)
	case errors.Is(err, holdfast.ErrNotHeld), errors.Is(err, holdfast.ErrInvalid):
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	default:
		return nil, status.Error(codes.Unavailable, err.Error())
	}
}

// The page shows no more.

// withToken sends the token of the lease to which the context belongs.
func withToken(
	ctx context.Context, method string, call, answer any, c *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	if lease, ok := holdfast.LeaseOf(ctx, "billing"); ok {
		ctx = metadata.AppendToOutgoingContext(ctx, "holdfast-token", strconv.FormatUint(lease.Token, 10))
	}
	return invoke(ctx, method, call, answer, c, options...)
}

// A gRPC service asks for each call whether its caller still holds the lock. Guarantee: G39.
func TestAGRPCServiceRefusesACallerWhoseLeaseIsOver(t *testing.T) {
	client, err := holdfast.New(memstore.New(), holdfast.Config{})
	assert.Must(t, err)
	defer func() { assert.NoError(t, client.Close(t.Context())) }()
	locks = client

	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(grpc.UnaryInterceptor(checked))
	health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	conn, err := grpc.NewClient("passthrough:billing", grpc.WithUnaryInterceptor(withToken),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))
	assert.Must(t, err)
	defer func() { assert.NoError(t, conn.Close()) }()
	service := health_v1.NewHealthClient(conn)
	call := func(ctx context.Context) codes.Code {
		return status.Code(assert.Err(service.Check(ctx, &health_v1.HealthCheckRequest{})))
	}

	mutex := client.Mutex("billing", holdfast.Checked())
	first, err := mutex.Lock(t.Context())
	assert.Must(t, err)
	late := metadata.AppendToOutgoingContext(t.Context(), "holdfast-token", strconv.FormatUint(first.Token(), 10))
	assert.Equal(t, call(first.Context()), codes.OK, "the holder's call")
	assert.Equal(t, call(late), codes.OK, "with the same token")
	assert.Equal(t, call(t.Context()), codes.FailedPrecondition, "without a token")
	assert.Must(t, first.Release(t.Context()))
	assert.Equal(t, call(late), codes.FailedPrecondition, "after the release")
	assert.Must(t, mutex.Do(t.Context(), func(ctx context.Context) error {
		assert.Equal(t, call(late), codes.FailedPrecondition, "beside the next holder")
		assert.Equal(t, call(ctx), codes.OK, "the next holder's call")
		return nil
	}))
	assert.Must(t, client.Close(t.Context()))
	assert.Equal(t, call(late), codes.Unavailable, "if nobody can be asked")
}

// The page shows the code that the test above runs.
func TestThePageShowsTheInterceptorThatIsTested(t *testing.T) {
	page, err := os.ReadFile("../../docs/fencing.md")
	assert.Must(t, err)
	source, err := os.ReadFile("grpc_test.go")
	assert.Must(t, err)
	_, shown, found := strings.Cut(string(page), "gRPC")
	assert.MustTrue(t, found, "the page says nothing of gRPC")
	_, shown, _ = strings.Cut(shown, "```go\n")
	shown, _, _ = strings.Cut(shown, "```")
	assert.True(t, len(shown) > 200 && strings.Contains(string(source), shown), "the page shows\n%s", shown)
}
