package daemon

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
)

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *logBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *logBuffer) contains(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.b.String(), text)
}

// text returns everything that was logged.
func (s *logBuffer) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestFollowerNamesPatchedBlockAsCause: a node with a patched state logs that when it opens its
// port, and a follower that halts at the patched block names it as the cause, by its height.
func TestFollowerNamesPatchedBlockAsCause(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	done(t, h, "sandbox_mine", `{"blocks":3}`)
	done(t, h, "sandbox_patch_state", `{"records":[{"Account":{"account_id":"new.near","account":{"amount":"7","locked":"0","code_hash":"11111111111111111111111111111111","storage_usage":0}}}]}`)
	patched := h.Engine.Head().Height()
	done(t, h, "sandbox_mine", `{"blocks":5}`)
	stop(t, h)
	open := func(dir, boot string) (*Daemon, *logBuffer) {
		t.Helper()
		hm, on, s := loaded(t, dir), true, new(logBuffer)
		hm.Config.Network.Enabled, hm.Config.Network.Addr, hm.Config.Network.BootNodes = &on, "127.0.0.1:0", boot
		log := logrus.New()
		log.SetOutput(s)
		h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		return h, s
	}
	a, log := open(dir, "")
	defer func() { stop(t, a) }()
	if want := fmt.Sprintf("the state of this chain was patched, last with block %d", patched); !log.contains(want) {
		t.Errorf("the log lacks %q:\n%s", want, log.b.String())
	}
	b, log := open(followerHome(t, dir), fmt.Sprintf("%v@%s", a.home.NodeKey.PublicKey(), a.NetworkAddr()))
	defer func() { stop(t, b) }()
	eventually(t, "halted", func() bool { _, is := b.Node.Halted(); return is })
	want := fmt.Sprintf("block %d is most likely one that carries a patch of the state", patched)
	eventually(t, "said why", func() bool { return log.contains("the node has halted") })
	if !log.contains(want) || log.contains("mended") {
		t.Errorf("the log lacks %q:\n%s", want, log.b.String())
	}
}
