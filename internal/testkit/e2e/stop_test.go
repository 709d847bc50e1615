//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// hold writes to a new connection and keeps it open, without reading, until the test ends.
func (p *process) hold(text string) net.Conn {
	p.t.Helper()
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Close() })
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10) // so that a large reply does not fit into the buffers
	}
	if _, err := io.WriteString(c, text); err != nil {
		p.t.Fatal(err)
	}
	return c
}

func posted(body string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// connectSlowClients opens connections that could delay the end of a node: half of a request,
// unread replies of megabytes, no request at all, and requests that wait.
func connectSlowClients(p *process) {
	p.t.Helper()
	s := p.signer()
	code := make([]byte, 800_000) // not wasm; a deployment does not need to be
	p.send(s.sign(s.key.AccountID, &primitives.DeployContract{Code: code}), "FINAL")
	view := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"query","params":{"request_type":"view_code","finality":"final","account_id":%q}}`, s.key.AccountID)
	large := posted("[" + strings.Repeat(view+",", 9) + view + "]")
	for range 8 {
		p.hold("POST / HTTP/1.1\r\nHost: x\r\nContent-")
		p.hold("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"jsonrpc\":")
		p.hold("")
	}
	for range 3 {
		p.hold(large)
	}
	for range 8 {
		p.hold(posted(`{"jsonrpc":"2.0","id":1,"method":"tx","params":{"tx_hash":"11111111111111111111111111111111","sender_account_id":"near","wait_until":"FINAL"}}`))
	}
	time.Sleep(500 * time.Millisecond) // so that the replies are being written; if not, the test is weaker, not wrong
}

// TestStopIsFastDespiteSlowClients: SIGTERM ends a node within a second, with code 0 and after a
// clean shutdown, whatever its clients do.
func TestStopIsFastDespiteSlowClients(t *testing.T) {
	home := newHome(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := start(t, home)
		s := p.signer()
		encoded, hash := s.next()
		p.send(encoded, "FINAL")
		connectSlowClients(p)
		took := p.stop(signal)
		t.Logf("%v: ended after %v", signal, took.Round(time.Millisecond))
		if took > time.Second {
			t.Errorf("%v: ended after %v, want less than a second", signal, took)
		}
		if said := p.out.String(); strings.Contains(said, "in time") || strings.Contains(said, "level=error") {
			t.Errorf("no clean shutdown in the log:\n%s", said)
		}
		again := start(t, home)
		if got := again.tx(hash, s.key.AccountID, "NONE"); got.Level != "FINAL" {
			t.Errorf("transaction after the restart: level %s, want FINAL", got.Level)
		}
		again.stop(syscall.SIGTERM)
	}
}

// TestSecondSignalEndsProcessAtOnce: a second signal ends the process without a clean stop.
func TestSecondSignalEndsProcessAtOnce(t *testing.T) {
	home := newHome(t)
	p := start(t, home)
	connectSlowClients(p)
	for range 2 {
		if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	select {
	case <-p.ended:
	case <-time.After(100 * time.Millisecond):
		t.Error("still running 100 ms after a second signal")
	}
	<-p.ended
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("ended with %v, want ended by the signal", p.err)
	}
	start(t, home).stop(syscall.SIGTERM) // no data is lost
}

// TestGreetingIsForTerminalsOnly: the greeting is printed only to terminals, and not if RUST_LOG
// asks for silence.
func TestGreetingIsForTerminalsOnly(t *testing.T) {
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("skipped: script is not installed")
	}
	home := newHome(t)
	for env, greets := range map[string]bool{"": true, "RUST_LOG=near=error": false} {
		cmd := exec.Command("script", "-qec", fmt.Sprintf("timeout -s INT 2 env %s %s --home %s run --rpc-addr %s", env, binary, home, freeAddr(t)), "/dev/null")
		out, err := cmd.CombinedOutput()
		if got := strings.Contains(string(out), "Ctrl-C stops the node."); got != greets {
			t.Errorf("with %q: greets: %v (%v)\n%s", env, got, err, out)
		}
	}
}
