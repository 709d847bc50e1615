package rpc

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives/fair"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// TestSlowTransfersKeepOutNoClient: clients that stop sending large bodies or reading large replies
// do not keep out clients that continue; and they stay connected while no request needs the memory.
func TestSlowTransfersKeepOutNoClient(t *testing.T) {
	large := healthy + strings.Repeat(" ", 6<<20)
	for name, hold := range map[string]func(c net.Conn){
		"body": func(c net.Conn) {
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n["+strings.Repeat("0", 5<<20))
		},
		"reply": func(c net.Conn) {
			_ = c.(*net.TCPConn).SetReadBuffer(4096)
			batch := "[" + strings.Repeat(viewCodeBody+",", 5) + healthy + "]"
			fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(batch), batch)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, addr := serve(t, bigState(), Options{Limits: limited(func(l *limits.Limits) {
				l.InFlight, l.ReadTimeout, l.WriteTimeout = 20<<20, time.Hour, time.Hour
			})})
			full := func() bool { return s.limiter.inFlight.Load()+int64(len(large)) > 20<<20 }
			for end := time.Now().Add(time.Minute); !full(); time.Sleep(20 * time.Millisecond) {
				if hold(dialFrom(t, "127.0.0.3", addr)); time.Now().After(end) {
					t.Fatalf("%d bytes in flight", s.limiter.inFlight.Load())
				}
			}
			time.Sleep(limits.Default().SlowAfter + 100*time.Millisecond)
			// On a slow machine, data on its way to the server does not make a slow transfer yet.
			eventually(t, "who sends has room", func() bool {
				r, _, err := ask(dialFrom(t, "127.0.0.2", addr), large)
				return err == nil && r.StatusCode == 200
			})
			if s.limiter.refused[limits.MaxInFlight].Load() == 0 {
				t.Error("the slow transfer is not counted")
			}
		})
	}
}

// TestConfigDecidesWhatIsSlow: slow_transfer_after and slow_transfer_bytes_per_second decide when a
// transfer gives way, and the right one is counted.
func TestConfigDecidesWhatIsSlow(t *testing.T) {
	const lasts = 2 * time.Minute
	for _, c := range []struct {
		name  string
		after time.Duration
		rate  uint64
		still bool // the last byte came as long ago as the first
		want  bool
		by    limits.ID
	}{
		{"not long enough", time.Hour, 1 << 30, false, false, limits.Count},
		{"below the rate", time.Minute, 1 << 30, false, true, limits.SlowRate},
		{"above the rate", time.Minute, 1, false, false, limits.Count},
		{"without a byte for long", time.Minute, 1, true, true, limits.SlowTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, addr := serve(t, &fakeNode{}, Options{Limits: limited(func(l *limits.Limits) {
				l.SlowAfter, l.SlowRate, l.ReadTimeout = c.after, c.rate, time.Hour
			})})
			slow := dialFrom(t, "127.0.0.3", addr)
			const body = 200 << 10
			const counted = body + 1 - smallReply // the first smallReply bytes begin no transfer
			_, _ = io.WriteString(slow, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n["+strings.Repeat("0", body))
			eventually(t, "the server has read it", func() bool {
				s.limiter.mu.Lock()
				defer s.limiter.mu.Unlock()
				for x := range s.limiter.conns {
					if x.transfer.began.Load() != 0 && x.transfer.moved.Load() >= counted {
						x.transfer.began.Add(-int64(lasts)) // the transfer is older than it is
						if c.still {
							x.transfer.last.Add(-int64(lasts))
						}
						return true
					}
				}
				return false
			})
			if got := s.limiter.closeSlowest(); got != c.want {
				t.Errorf("gives way: %v, want %v", got, c.want)
			}
			if c.want && s.limiter.refused[c.by].Load() != 1 {
				t.Error("it is not counted by its limit")
			}
		})
	}
}

// TestWaitersBeyondHeavyLimitAreRefused: max_heavy_waiting requests wait for a turn of the heavy
// limit; the next one is refused with that limit's name.
func TestWaitersBeyondHeavyLimitAreRefused(t *testing.T) {
	s, addr := serve(t, &fakeNode{}, Options{PollingTimeout: time.Minute, Limits: limited(func(l *limits.Limits) { l.HeavyWaiting = 1 })})
	var leave []func()
	for range s.limiter.heavy.free { // no turn is free
		done, err := s.limiter.heavy.enter(t.Context(), fair.Client{})
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, done)
	}
	large := healthy + strings.Repeat(" ", 100<<10)
	waits := make(chan int)
	go func() {
		r, _, err := ask(dialFrom(t, "127.0.0.2", addr), large)
		if err != nil {
			t.Error(err)
			waits <- 0
			return
		}
		waits <- r.StatusCode
	}()
	for s.limiter.heavy.waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	if text := string(s.AppendMetrics(nil)); !strings.Contains(text, "troupe_rpc_limit_fill{limit=\"max_heavy_waiting\"} 1\n") {
		t.Errorf("metrics: %s", text)
	}
	if r, text, err := ask(dialFrom(t, "127.0.0.3", addr), large); err != nil || r.StatusCode != 503 || !strings.Contains(text, "troupe.rpc.max_heavy_waiting") {
		t.Errorf("a second: %v %s", err, text)
	}
	for _, done := range leave {
		done()
	}
	if got := <-waits; got != 200 {
		t.Errorf("the first: %d", got)
	}
}

// TestRequestWithTwoLengthsIsOneRequest: if a request has two lengths, what follows it is not taken
// for another request.
func TestRequestWithTwoLengthsIsOneRequest(t *testing.T) {
	_, addr := serve(t, &fakeNode{}, Options{})
	c := dialFrom(t, "127.0.0.1", addr)
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(healthy), healthy)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"+chunked+
		"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	all, _ := io.ReadAll(c)
	if n := strings.Count(string(all), "HTTP/1.1 "); n != 1 || !strings.Contains(string(all), "Connection: close") {
		t.Errorf("%d replies: %s", n, all)
	}
}

// TestUnreadReplyOnSocketIsATransfer: a large reply queued in a WebSocket after small messages that
// its client does not read is a transfer like any other, and gives way.
func TestUnreadReplyOnSocketIsATransfer(t *testing.T) {
	n := &fakeNode{}
	subs := notices(n)
	s, url := served(t, n, Options{Limits: limited(func(l *limits.Limits) { l.SlowAfter, l.SlowRate = 100*time.Millisecond, 1<<30 })})
	c := dial(t, url, nil)
	sendText(t, c, `{"id":1,"method":"subscribe","params":{"topic":"blocks"}}`)
	receiveText(t, c)
	sub := <-subs
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
		if sub.sink.Offer(notice(0, smallReply-1000)) {
			end = time.Now().Add(200 * time.Millisecond)
		} else {
			time.Sleep(time.Millisecond)
		}
	}
	if s.limiter.closeSlowest() {
		t.Fatal("small things are slow")
	}
	var k *socket
	s.sockets.each(func(x *socket) { k = x })
	replied := make(chan struct{})
	go func() {
		k.reply(k.exchange(), make([]byte, 1<<20))
		close(replied)
	}()
	eventually(t, "it gives way", s.limiter.closeSlowest)
	<-replied
	if k.conn.transfer.began.Load() != 0 {
		t.Error("it is over, and still a transfer")
	}
}

// TestTransfersOfConnectionEndTogether: several transfers of one connection end with the last, and
// each end shows that its client reads.
func TestTransfersOfConnectionEndTogether(t *testing.T) {
	var x transfer
	x.begin()
	x.move(5)
	first := x.began.Load()
	x.begin()
	if x.began.Load() != first || x.moved.Load() != 5 {
		t.Error("the second hides how slow the first is")
	}
	time.Sleep(time.Millisecond)
	if x.end(); x.began.Load() <= first || x.moved.Load() != 0 {
		t.Error("the second transfer has the age of the first")
	}
	if x.end(); x.began.Load() != 0 {
		t.Error("there is one left")
	}
}
