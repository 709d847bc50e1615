package daemon

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/config"
)

// TestSlowSubscribersDelayNobodyElse: of a thousand subscribers to blocks half never read. The
// others receive each block, those take no more memory than their queues may, and neither the chain
// nor queries wait for them.
func TestSlowSubscribersDelayNobodyElse(t *testing.T) {
	sockets, blocks := 1000, 60
	if testing.Short() {
		sockets, blocks = 100, 50
	}
	hm := loaded(t, made(t))
	hm.Config.Production = config.Manual
	hm.Config.RPC.Limits.SocketPing = time.Hour // these clients answer none, and the machine may be slow
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, h)
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := inUse()
	body := []byte(`{"id":1,"method":"subscribe","params":{"topic":"blocks","finality":"optimistic"}}`)
	frame := append([]byte{0x81, 0x80 | 126, 0, byte(len(body)), 0, 0, 0, 0}, body...)
	var all sync.WaitGroup
	received := make([]int, sockets)
	last := fmt.Appendf(nil, `"height":%d,`, int(h.Engine.Head().Height())+blocks)
	for i := range sockets {
		c, err := net.Dial("tcp", h.Addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(8 * time.Minute)) // longer than all of it
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		_, _ = io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
		head := make([]byte, 12)
		if _, err := io.ReadFull(c, head); err != nil || string(head) != "HTTP/1.1 101" {
			t.Fatalf("WebSocket %d: %q %v", i, head, err)
		}
		subs := 1
		if i%2 == 1 {
			subs = 8 // their messages exceed the system's buffers
		}
		if _, err := c.Write(bytes.Repeat(frame, subs)); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			continue
		}
		all.Go(func() {
			in := bufio.NewReaderSize(c, 64<<10)
			for mark := []byte(`"method":"subscription"`); ; {
				text, err := in.ReadSlice('}')
				if err != nil && err != bufio.ErrBufferFull {
					return
				}
				received[i] += bytes.Count(text, mark)
				if received[i] == blocks && bytes.Contains(text, last) {
					return
				}
			}
		})
	}
	begun := fmt.Sprintf(`troupe_rpc_limit_fill{limit="max_subscriptions"} %d`, sockets/2*9)
	for until := time.Now().Add(3 * time.Minute); !strings.Contains(string(h.server.AppendMetrics(nil)), begun); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("not all have subscribed")
		}
	}
	begin := time.Now()
	slowest := time.Duration(0)
	for range blocks {
		asked := time.Now()
		if got := mineBy(t, h, `{}`); got.Error.Cause.Name != "" {
			t.Fatalf("got %+v", got)
		}
		slowest = max(slowest, time.Since(asked))
	}
	took := time.Since(begin)
	all.Wait()
	for i := 0; i < sockets; i += 2 {
		if received[i] != blocks {
			t.Fatalf("reader %d received %d of %d blocks", i, received[i], blocks)
		}
	}
	more := (float64(inUse()) - float64(before)) / (1 << 20)
	t.Logf("%d blocks in %v, the slowest in %v; %.0f MiB more", blocks, took, slowest, more)
	if more > 300 {
		t.Errorf("%.0f MiB more", more)
	}
}
