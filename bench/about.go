package bench

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// measured are the modules whose versions are reported.
var measured = []string{
	"github.com/redis/go-redis/v9", "github.com/redis/rueidis",
	"github.com/go-redsync/redsync/v4", "github.com/bsm/redislock",
}

// introduce prints, in the form of benchmark results, what was measured and on which
// machine.
func introduce() string {
	var out strings.Builder
	fmt.Fprintf(&out, "cores: %d\ngo: %s\n", runtime.GOMAXPROCS(0), runtime.Version())
	server := os.Getenv(redistest.EnvServer)
	if server == "" {
		server = "redis-server"
	}
	if version, err := exec.Command(server, "--version").Output(); err == nil { //nolint:gosec,noctx // the tests' own
		fmt.Fprintf(&out, "server: %s\n", strings.TrimSpace(string(version)))
	}
	list := append([]string{"list", "-m", "-f", "{{.Path}} {{.Version}}"}, measured...)
	if versions, err := exec.Command("go", list...).Output(); err == nil { //nolint:noctx // a test binary has none
		fmt.Fprintf(&out, "modules: %s\n", strings.Join(strings.Split(strings.TrimSpace(string(versions)), "\n"), ", "))
	}
	return out.String() + load()
}

// load returns the load of the machine. It is empty where that cannot be read.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("load: %s\n", strings.Join(strings.Fields(string(text))[:3], " "))
}
