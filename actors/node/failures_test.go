package node

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/actors/historyimport"
	"github.com/troupe-chain/troupe/actors/network"
	"github.com/troupe-chain/troupe/actors/session"
	validatoractor "github.com/troupe-chain/troupe/actors/validator"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// promise is what clients may observe when an actor of a kind fails.
type promise struct {
	asked  []string // allowed errors of requests that the failed actor handled; "": success
	others []string // allowed errors of another client's wait
	works  bool     // the next submission succeeds
}

var promises = map[failure]promise{
	halts:      {asked: []string{"INTERNAL_ERROR"}, others: []string{"INTERNAL_ERROR"}},
	stopsAlone: {asked: []string{"INTERNAL_ERROR"}, others: []string{""}, works: true},
	restarts:   {asked: []string{"", "INTERNAL_ERROR"}, others: []string{""}, works: true},
}

// exceptions are kinds whose failure has more effects on other clients than its rule says.
var exceptions = map[string][]string{"rpc": {"INTERNAL_ERROR"}} // the parent of all sessions: all waits end

// TestEachActorFailureHasListedEffect: an actor of each kind panics once, before or after it
// handles the first message of a request. The effect on clients is as listed in promises. No
// request waits longer than a moment, reads still work, and the next request succeeds or gets the
// reason.
func TestEachActorFailureHasListedEffect(t *testing.T) {
	for kind, rule := range failures {
		for _, behind := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/behind=%v", kind, behind), func(t *testing.T) { failOnce(t, kind, rule, behind) })
		}
	}
}

func failOnce(t *testing.T, kind string, rule failure, behind bool) {
	p := promises[rule]
	if more, ok := exceptions[kind]; ok {
		p.others = more
	}
	if kind == "subscriber" || kind == historyimport.Name { // only its own client is affected, or none
		p.asked = []string{""}
	}
	if behind { // the handled message may have been enough for success
		p.asked, p.others = append([]string{""}, p.asked...), append([]string{""}, p.others...)
	}
	var armed, tripped atomic.Bool
	log, said := logrus.New(), new(safe)
	log.SetOutput(said)
	s := start(t, 1, func(o *Options) {
		o.Log, o.Summary = log, 10*time.Millisecond
		if kind == historyimport.Name {
			o.History = pausingJob{}
		}
		if kind == network.Name {
			networked(t, o, "alone")
		}
		if kind == validatoractor.Name {
			networked(t, o, "alone")
			o.Validator = &validatoractor.Options{Account: validator, Key: o.Keys[validator],
				Journal: filepath.Join(t.TempDir(), "signed")}
			o.Mode, o.Delays.Endorsement, o.Delays.Skip = production.Interval, int64(20*time.Millisecond), int64(100*time.Millisecond)
		}
		o.hooks.trip = func(of string, m any, after bool) {
			switch m.(type) {
			case actor.SystemMessage, actor.AutoReceiveMessage:
				return
			}
			if _, request := m.(session.Request); kind == session.Name && !request {
				return
			}
			if of == kind && after == behind && armed.CompareAndSwap(true, false) {
				tripped.Store(true)
				panic("tripped on purpose")
			}
		}
	})
	w := serve(t, s)
	a, b := w.another(), w.another()
	for _, c := range []*wire{a, b} {
		if r := c.send(t, s.tx("near", transfer(1)), view.LevelFinal); r.fault() != "" {
			t.Fatalf("before: %+v", r.Error)
		}
	}
	told := w.follow(t)
	told.wait(t, "height")
	one, two := s.tx("near", transfer(2)), s.tx("near", transfer(3))
	other := make(chan *reply, 1) // b waits for transaction two, which is not sent yet
	go func() {
		other <- b.call(t, "tx", map[string]any{"tx_hash": two.Hash().String(), "sender_account_id": validator,
			"wait_until": "FINAL"})
	}()
	until(t, func() bool { return s.Stats().Parked == 1 })
	s.waitIdle(t) // b's waiter has started
	if kind == session.Name {
		a = w.another() // only the first request of a client passes through the rpc actor
	}
	armed.Store(true)
	begin := time.Now()
	r := a.send(t, one, view.LevelFinal)
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("the client waited %v", took)
	}
	until(t, tripped.Load)
	until(t, func() bool { return strings.Contains(said.String(), "tripped on purpose") })
	if !among(r.fault(), p.asked) {
		t.Errorf("the client sees %q, want one of %q: %+v", r.fault(), p.asked, r.Error)
	}
	if kind == "streams" || kind == "subscriber" {
		told.wait(t, string(view.EndFailed))
		told = w.follow(t) // subscribe again
	}
	if p.works {
		told.wait(t, "height")
	}
	if !a.reads(t) || !b.another().reads(t) {
		t.Error("reads do not go on")
	}
	if !p.works {
		until(t, func() bool { _, ok := s.Halted(); return ok })
		if r := a.send(t, two, view.LevelFinal); r.fault() != "INTERNAL_ERROR" ||
			!strings.Contains(string(r.Error.Cause.Info), "halted") {
			t.Errorf("a submission to what has halted: %+v", r)
		}
		if _, text := a.get(t, "/status"); !strings.Contains(text, `"halted"`) {
			t.Errorf("the status does not say halted: %s", text)
		}
	} else {
		if r := a.send(t, one, view.LevelFinal); r.fault() != "" { // may be included already
			t.Errorf("the same again: %+v", r.Error)
		}
		if next := a.send(t, two, view.LevelFinal); next.fault() != "" {
			t.Errorf("the next: %+v", next.Error)
		}
		if h, ok := s.Halted(); ok {
			t.Errorf("halted: %+v", h)
		}
	}
	select {
	case r := <-other:
		if !among(r.fault(), p.others) {
			t.Errorf("another client sees %q, want one of %q: %+v", r.fault(), p.others, r.Error)
		}
	case <-time.After(time.Minute):
		t.Error("another client waits on")
	}
}

// waitIdle waits until no actor has had a message for 10 ms.
func (s *sandbox) waitIdle(t *testing.T) {
	t.Helper()
	for since := time.Now(); time.Since(since) < 10*time.Millisecond; time.Sleep(time.Millisecond) {
		for _, x := range s.Meter() {
			if x.Name != "meter" && (x.Mailbox > 0 || x.Since > 0) {
				since = time.Now()
			}
		}
	}
}

// pausingJob is an import of history that has nothing to do.
type pausingJob struct{}

func (pausingJob) Run(context.Context) time.Duration { return time.Millisecond }

func among(s string, list []string) bool {
	return slices.Contains(list, s)
}

// TestRepeatedFailureHaltsTheNode: an actor that fails at each message halts the node, after the
// allowed number of restarts.
func TestRepeatedFailureHaltsTheNode(t *testing.T) {
	var count atomic.Int64
	s := start(t, 1, func(o *Options) {
		o.Summary = time.Millisecond
		o.hooks.trip = func(of string, m any, _ bool) {
			if _, ok := m.(summarise); ok && of == "meter" {
				count.Add(1)
				panic("tripped on purpose")
			}
		}
	})
	until(t, func() bool { _, ok := s.Halted(); return ok })
	if n := count.Load(); n != maxRestarts+1 {
		t.Errorf("halted after %d failures, want %d", n, maxRestarts+1)
	}
	if h, _ := s.Halted(); h.Actor != "meter" {
		t.Errorf("halted: %+v", h)
	}
}

// blockSink is the sink of a block subscription; it receives notices and the reason of the end.
type blockSink chan string

// follow subscribes to blocks, as a client of the node.
func (w *wire) follow(t *testing.T) blockSink {
	t.Helper()
	out := make(blockSink, 10_000)
	sub, err := w.back.Subscribe(&view.Subscription{Topic: view.TopicBlocks, From: new(primitives.Height)}, out)
	if err != nil {
		t.Fatal(err)
	}
	sub.Start()
	t.Cleanup(sub.Cancel)
	return out
}

func (c blockSink) Offer(n *view.Notice) bool               { c <- string(n.Body); return true }
func (c blockSink) WhenRoom(f func())                       { f() }
func (c blockSink) End(why view.EndReason, at *view.Cursor) { c <- string(why) }

// wait waits for a notice that contains a text.
func (c blockSink) wait(t *testing.T, text string) {
	t.Helper()
	for end := time.After(time.Minute); ; {
		select {
		case got := <-c:
			if strings.Contains(got, text) {
				return
			}
		case <-end:
			t.Fatalf("a subscriber got no notice of %q", text)
		}
	}
}
