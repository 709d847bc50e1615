//go:build e2e

package e2e

import (
	"os/exec"
	"testing"
)

// TestNodeJSWebSocketSubscribes: the built-in WebSocket of Node.js (from version 22 on, or with a
// flag) calls methods, subscribes, and resumes from a cursor.
func TestNodeJSWebSocketSubscribes(t *testing.T) {
	need(t, "node")
	args := []string{"socket.mjs"}
	if exec.Command("node", "-e", "process.exit(typeof WebSocket === 'function' ? 0 : 1)").Run() != nil {
		args = append([]string{"--experimental-websocket"}, args...)
		if exec.Command("node", "--experimental-websocket", "-e", "").Run() != nil {
			t.Skip("skipped: this Node.js has no WebSocket")
		}
	}
	script(t, "js", start(t, newHome(t)).env(), "node", args...)
}
