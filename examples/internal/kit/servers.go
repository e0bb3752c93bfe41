package kit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a redis-server that the example starts, on the loopback interface and without
// persistence.
type Server struct {
	Addr string

	cmd *exec.Cmd
}

// Servers starts n of them. They are killed when ctx ends, or by [Server.Kill].
func Servers(ctx context.Context, n int) ([]*Server, error) {
	program, err := find()
	if err != nil {
		return nil, err
	}
	servers := make([]*Server, 0, n)
	for range n {
		s, err := startServer(ctx, program)
		if err != nil {
			for _, s := range servers {
				s.Kill()
			}
			return nil, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func find() (string, error) {
	for _, name := range []string{os.Getenv("HOLDFAST_TEST_SERVER"), "redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no redis-server and no valkey-server is on PATH: install one")
}

func startServer(ctx context.Context, program string) (*Server, error) {
	free, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := free.Addr().(*net.TCPAddr)
	if err := free.Close(); err != nil {
		return nil, err
	}
	s := &Server{Addr: addr.String()}
	s.cmd = exec.CommandContext(ctx, program, "--port", fmt.Sprint(addr.Port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no")
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer rdb.Close()
	for deadline := time.Now().Add(20 * time.Second); ; {
		if err = rdb.Ping(ctx).Err(); err == nil {
			return s, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			s.Kill()
			return nil, fmt.Errorf("the server at %s does not answer: %w", s.Addr, err)
		}
		if err := Pause(ctx, 10*time.Millisecond); err != nil {
			s.Kill()
			return nil, err
		}
	}
}

// Kill ends the server as a crash would.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}
