package typescript_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// minNode is the oldest supported Node (engines in guest-sdk/js/package.json). A distribution may have an older one.
const minNode = 20

// findNode returns Node, or skips the test with the message without.
func findNode(t *testing.T, without string) string {
	t.Helper()
	return findNodeFrom(t, minNode, "the SDK", without)
}

// findNodeFrom is like findNode, for the release least or later, which what requires.
func findNodeFrom(t *testing.T, least int, what, without string) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("SKIPPED: node is not installed; %s", without)
	}
	out, err := exec.Command(node, "--version").Output()
	if err != nil {
		t.Skipf("SKIPPED: node --version: %v; %s", err, without)
	}
	version := strings.TrimSpace(string(out))
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < least {
		t.Skipf("SKIPPED: node is %s, and %s needs %d or newer; %s", version, what, least, without)
	}
	return node
}

// nodeOfTypeScript returns a Node that runs TypeScript, 22.18 or newer, or skips the test with the message without.
func nodeOfTypeScript(t *testing.T, without string) string {
	t.Helper()
	node := findNode(t, without)
	if !runsTypeScript(node) {
		t.Skipf("SKIPPED: no Node that runs TypeScript is installed (22.18 or newer); %s", without)
	}
	return node
}

func runsTypeScript(node string) bool {
	out, err := exec.Command(node, "-p", "Boolean(process.features.typescript)").Output()
	return err == nil && strings.TrimSpace(string(out)) == "true"
}
