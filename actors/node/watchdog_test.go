package node

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// safe is a buffer that is safe for concurrent use.
type safe struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestEndlessCallIsReported: a call that does not end is reported while it runs: in the log, with
// all stacks, and in the metrics. After it has ended, only counters show it.
func TestEndlessCallIsReported(t *testing.T) {
	dir, vm, said, end := t.TempDir(), new(failingVM).set(func() error { return nil }), new(safe), make(chan struct{})
	log := logrus.New()
	log.SetOutput(said)
	s := startOn(t, 2, storage.NewMemDisk(), vm,
		func(o *Options) { o.Failed, o.Log, o.Standstill = dir, log, 50*time.Millisecond })
	send := func(a ...primitives.Action) error {
		_, err := s.SendTx(t.Context(), &view.SendTx{Tx: s.tx(validator, a...), WaitUntil: view.LevelFinal})
		return err
	}
	if err := send(&primitives.DeployContract{Code: []byte("no code")}); err != nil {
		t.Fatal(err)
	}
	vm.set(func() error { <-end; return nil })
	done := make(chan error, 1)
	go func() { done <- send(call()) }()
	until(t, func() bool { return strings.Contains(said.String(), "an actor is stuck") })
	busy := s.account(t, "shard", func(x *system.Sample) bool { return x.Since > 0 })
	if busy.Stalls == 0 || busy.Shard == "" {
		t.Errorf("the account: %+v", busy)
	}
	names, err := filepath.Glob(filepath.Join(dir, "stacks-*.txt"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%d files of stacks, %v", len(names), err)
	}
	if text, err := os.ReadFile(names[0]); err != nil || !bytes.Contains(text, []byte("failingVM")) {
		t.Errorf("the stacks do not show the function that stands still, of type failingVM: %v", err)
	}
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
	until(t, func() bool {
		x := s.account(t, "shard", func(x *system.Sample) bool { return x.Shard == busy.Shard })
		return x.Since == 0 && x.Oldest == 0 && x.Mailbox == 0
	})
	text := string(s.Metrics(nil))
	for _, want := range []string{
		`troupe_actor_standstills_total{actor="shard",shard_id="s` + busy.Shard + `"} 1`,
		`troupe_actor_busy_with_one_seconds{actor="shard",shard_id="s` + busy.Shard + `"} 0`,
		`troupe_actor_handle_seconds_bucket{actor="chain",le="+Inf"} `, `troupe_actor_wait_seconds_sum{actor="mempool",shard_id="s0"} `,
		`troupe_actor_mailbox_oldest_seconds{actor="mempool",shard_id="s1"} 0`, `troupe_actor_dead_letters_total{actor="waiter"} `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(text, "slowest") {
		t.Error("/metrics has what never resets")
	}
}

// account returns the first sample of a kind that satisfies want. If there is none, the test fails.
func (s *sandbox) account(t *testing.T, kind string, want func(*system.Sample) bool) system.Sample {
	t.Helper()
	for _, x := range s.Meter() {
		if x.Name == kind && want(&x) {
			return x
		}
	}
	t.Fatalf("no such %s: %+v", kind, s.Meter())
	return system.Sample{}
}

func TestOnlyNewestDumpsAreKept(t *testing.T) {
	dir := t.TempDir()
	for i := range stackFiles + 2 {
		if _, err := dumpStacks(dir, nil, time.Unix(int64(1000+i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != stackFiles || names[0].Name() != "stacks-19700101T001642.000.txt" {
		t.Errorf("%v, %v", names, err)
	}
	path, err := dumpStacks(dir, nil, time.Unix(1, 0)) // as if the clock were set back
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the dump was removed: %v", err)
	}
	if names, err = os.ReadDir(dir); err != nil || len(names) != stackFiles {
		t.Errorf("%v, %v", names, err)
	}
}
