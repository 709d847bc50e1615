package rpc

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/troupe-chain/troupe/primitives/view"
)

// dropper is a node whose worlds are dropped.
type dropper struct {
	*fakeNode
	drop  func(id string)
	calls *atomic.Int64 // how often it was asked for anything else
}

func (d dropper) DropWorld(_ context.Context, id string) error {
	d.drop(id)
	return nil
}

func (d dropper) Worlds() (out []view.World, err error) {
	d.calls.Add(1)
	return d.fakeNode.Worlds()
}

// dropping serves a world that can drop itself.
func dropping(t *testing.T) (s *Server, addr string, was *atomic.Int64) {
	t.Helper()
	s, addr = serve(t, &fakeNode{}, Options{})
	was = new(atomic.Int64)
	s.AddWorld("a", dropper{&fakeNode{}, func(id string) {
		s.RemoveWorld(id)
		time.Sleep(20 * time.Millisecond) // its node stops
	}, was}, WorldOptions{Asked: func() (func(), bool) { return func() {}, true }})
	return s, addr, was
}

const dropA = `{"jsonrpc":"2.0","id":1,"method":"sandbox_drop_world","params":{"id":"a"}}`

// TestBatchAfterWorldEndIsRefused: requests of a batch after the end of their world are refused,
// and do not reach its node.
func TestBatchAfterWorldEndIsRefused(t *testing.T) {
	_, addr, was := dropping(t)
	worlds := `{"jsonrpc":"2.0","id":2,"method":"sandbox_worlds"}`
	r, err := http.Post("http://"+addr+"/world/a", "application/json", strings.NewReader("["+worlds+","+dropA+","+worlds+`,{"jsonrpc":"2.0","id":3,"method":"sandbox_mine","params":[1]}]`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), errWorldGone.Error()); strings.Count(string(b), `"result":`) != 2 || n < 2 || was.Load() != 1 {
		t.Errorf("the node got %d requests: %s", was.Load(), b)
	}
}

// TestDroppingSocketGetsReplyThenClose: a client that drops a world over a WebSocket of that world
// gets the reply, and then the close message.
func TestDroppingSocketGetsReplyThenClose(t *testing.T) {
	_, addr, _ := dropping(t)
	c, other := dial(t, "ws://"+addr+"/world/a/ws", nil), dial(t, "ws://"+addr+"/world/a/ws", nil)
	sendText(t, c, dropA)
	if got := receiveText(t, c); !strings.Contains(got, `"result":{}`) {
		t.Errorf("the reply is %s", got)
	}
	for _, c := range []*websocket.Conn{c, other} {
		if code := closeCodeOf(t, c); code != websocket.CloseGoingAway {
			t.Errorf("ended by %d", code)
		}
	}
}

// TestSocketOpenedDuringDropIsClosed: a WebSocket whose world is dropped during the upgrade ends
// like others.
func TestSocketOpenedDuringDropIsClosed(t *testing.T) {
	s, addr := serve(t, &fakeNode{}, Options{})
	var requests atomic.Int64
	s.AddWorld("a", &fakeNode{}, WorldOptions{Asked: func() (func(), bool) {
		if requests.Add(1) == 2 { // of the WebSocket itself, which is not registered yet
			s.RemoveWorld("a")
		}
		return func() {}, true
	}})
	if code := closeCodeOf(t, dial(t, "ws://"+addr+"/world/a/ws", nil)); code != websocket.CloseGoingAway {
		t.Errorf("ended by %d", code)
	}
}
