// Package java starts real Redisson in a Java process, for the tests and measurements that run beside
// it. The program is in src; scripts/redisson.sh compiles it.
package java

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Version is the version of Redisson in pom.xml.
const Version = "4.7.0"

// env names the environment variable with the class path of the program and of Redisson.
const env = "HOLDFAST_REDISSON"

// Command returns the command that runs the program, with little memory. It fails, and says what to
// do, if the program is not compiled or if there is no Java.
func Command() (*exec.Cmd, error) {
	classes := os.Getenv(env)
	if classes == "" {
		return nil, fmt.Errorf("%s is not set: run make test-beside BESIDE=redisson, or redisson.sh", env)
	}
	binary, err := exec.LookPath("java")
	if err != nil {
		return nil, errors.Join(errors.New("there is no Java: install default-jdk-headless"), err)
	}
	//nolint:noctx,gosec // whoever starts it also ends it; the class path is the caller's
	return exec.Command(binary, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-cp", classes, "Main"), nil
}
