//go:build e2e && linux

package e2e

import (
	"context"
	binenc "encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-chain/troupe/net/near/tcp"
)

// tunNetwork are nodes that each have a network namespace with one TUN interface. This process
// forwards their packets, TCP and QUIC alike, and can delay, lose or block them. The kernel needs
// no other feature than TUN.
type tunNetwork struct {
	t     *testing.T
	names []string
	tuns  []*os.File
	lag   atomic.Int64  // ns, one way
	loss  atomic.Uint64 // per million packets
	cut   []atomic.Bool // true: no packets pass; index from*n+to
	ways  []chan packet // queue of packets; index from*n+to

	apart atomic.Pointer[[]bool] // the two sides of the last cut
	over  atomic.Int64           // when a packet first crossed between the sides after the repair, in ns; 0: not yet

	Passed, Lost, Cut, UDP atomic.Int64 // UDP counts passed UDP packets
}

type packet struct {
	due   time.Time
	bytes []byte
}

// Parameters of each connection between two nodes.
const (
	islandMTU   = 1500
	islandQueue = 8192 // packets in transit from one node to another; more are dropped, as in a router
	islandRPC   = 3030
	islandPort  = 24567
)

// newTunNetwork makes n nodes. It skips the test if it lacks the permission.
func newTunNetwork(t *testing.T, n int) *tunNetwork {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces are made by root alone")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("there is no /dev/net/tun")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("there is no ip (iproute2)")
	}
	s := &tunNetwork{t: t, cut: make([]atomic.Bool, n*n), ways: make([]chan packet, n*n)}
	var group sync.WaitGroup
	t.Cleanup(func() {
		for _, f := range s.tuns {
			_ = f.Close()
		}
		for _, w := range s.ways {
			close(w)
		}
		group.Wait()
		for _, name := range s.names {
			_ = exec.Command("ip", "netns", "del", name).Run()
		}
	})
	for i := range s.ways {
		s.ways[i] = make(chan packet, islandQueue)
	}
	for i := range n {
		name := fmt.Sprintf("troupe%d-%d", os.Getpid(), i)
		if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
			t.Skipf("no network namespace can be made: %v: %s", err, out)
		}
		s.names = append(s.names, name)
		f, err := openTUN(name)
		if err != nil {
			t.Skipf("no interface can be made: %v", err)
		}
		s.tuns = append(s.tuns, f)
		for _, args := range []string{"link set lo up", "addr add " + s.ip(i) + "/24 dev tun0", fmt.Sprint("link set tun0 mtu ", islandMTU, " up")} {
			if out, err := exec.Command("ip", append([]string{"-n", name}, strings.Fields(args)...)...).CombinedOutput(); err != nil {
				t.Fatalf("ip %s: %v: %s", args, err, out)
			}
		}
	}
	var readers sync.WaitGroup
	for i := range n {
		readers.Go(func() { s.read(i) })
		for k := range n {
			group.Go(func() { s.carry(i, k) })
		}
	}
	t.Cleanup(func() { // before the queues are closed
		for _, f := range s.tuns {
			_ = f.Close()
		}
		readers.Wait()
	})
	return s
}

func (s *tunNetwork) ip(i int) string  { return fmt.Sprintf("10.77.0.%d", i+1) }
func (s *tunNetwork) rpc(i int) string { return fmt.Sprintf("%s:%d", s.ip(i), islandRPC) }
func (s *tunNetwork) net(i int) string { return fmt.Sprintf("%s:%d", s.ip(i), islandPort) }

// within runs do on a thread that is in a network namespace.
func within(name string, do func() error) error {
	runtime.LockOSThread()
	home, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		return err
	}
	defer home.Close()
	there, err := os.Open("/var/run/netns/" + name)
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	err = do()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return back // the thread stays locked and ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// openTUN makes the TUN interface of a namespace.
func openTUN(name string) (f *os.File, err error) {
	err = within(name, func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		ifr, err := unix.NewIfreq("tun0")
		if err != nil {
			return err
		}
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
			_ = unix.Close(fd)
			return err
		}
		f = os.NewFile(uintptr(fd), "/dev/net/tun")
		return nil
	})
	return f, err
}

// read reads the packets that a node sends.
func (s *tunNetwork) read(i int) {
	buf := make([]byte, 1<<16)
	for {
		n, err := s.tuns[i].Read(buf)
		if err != nil {
			return
		}
		if n < 20 || buf[0]>>4 != 4 {
			continue
		}
		k := int(binenc.BigEndian.Uint32(buf[16:20])) - int(binenc.BigEndian.Uint32(net.ParseIP(s.ip(0)).To4()))
		if k < 0 || k >= len(s.tuns) {
			continue
		}
		way := i*len(s.tuns) + k
		if in := s.apart.Load(); in != nil && (*in)[i] != (*in)[k] && !s.cut[way].Load() {
			s.over.CompareAndSwap(0, time.Now().UnixNano())
		}
		switch {
		case s.cut[way].Load():
			s.Cut.Add(1)
			continue
		case s.loss.Load() > 0 && rand.Uint64N(1_000_000) < s.loss.Load():
			s.Lost.Add(1)
			continue
		}
		select {
		case s.ways[way] <- packet{time.Now().Add(time.Duration(s.lag.Load())), append([]byte(nil), buf[:n]...)}:
			if s.Passed.Add(1); buf[9] == unix.IPPROTO_UDP {
				s.UDP.Add(1)
			}
		default:
			s.Lost.Add(1)
		}
	}
}

// carry delivers packets from one node to another when they are due, in order.
func (s *tunNetwork) carry(i, k int) {
	for p := range s.ways[i*len(s.tuns)+k] {
		if d := time.Until(p.due); d > 0 {
			time.Sleep(d)
		}
		_, _ = s.tuns[k].Write(p.bytes) // fails if the interface was closed: the packet is lost
	}
}

// part cuts a group of nodes off from all others. Without nodes it repairs all connections.
func (s *tunNetwork) part(group ...int) {
	n := len(s.tuns)
	in := make([]bool, n)
	if len(group) > 0 {
		s.apart.Store(&in)
		defer s.over.Store(0)
	}
	for _, i := range group {
		in[i] = true
	}
	for i := range n {
		for k := range n {
			s.cut[i*n+k].Store(in[i] != in[k])
		}
	}
}

// across waits until a packet crosses the last cut, which was repaired at a given time, and returns
// how long after the repair that was.
func (s *tunNetwork) across(repaired time.Time, within time.Duration) time.Duration {
	s.t.Helper()
	for s.over.Load() == 0 {
		if time.Since(repaired) > within {
			s.t.Fatalf("no packet crossed the repaired link within %v", within)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Unix(0, s.over.Load()).Sub(repaired)
}

// start starts a node in its namespace and waits until it serves.
func (s *tunNetwork) start(i int, home string, flags ...string) *process {
	s.t.Helper()
	args := append([]string{"netns", "exec", s.names[i], binary, "--home", home, "run", "--rpc-addr", s.rpc(i)}, flags...)
	dials.Store(s.rpc(i), func(_ context.Context, network, addr string) (c net.Conn, err error) {
		err = within(s.names[i], func() error {
			c, err = net.DialTimeout(network, addr, 5*time.Second)
			return err
		})
		return c, err
	})
	p := launchAs(s.t, home, s.rpc(i), "ip", args...)
	for deadline := time.Now().Add(30 * time.Second); ; {
		r, err := client.Get("http://" + p.addr + "/status")
		if err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
			client.CloseIdleConnections() // connections to the process before the restart
			return p
		}
		select {
		case <-p.ended:
			s.t.Fatalf("the node ended: %v\n%s", p.err, p.out.String())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the node does not serve: %v\n%s", err, p.out.String())
		}
	}
}

// TestTCPConnectionSurvivesCut: a peer connection over TCP survives a cut of 45 s, after which TCP
// with such short timeouts would otherwise give up. Data that was written meanwhile arrives within
// two seconds, the interval between retransmissions. Kernels before 6.15 do not bound that
// interval, so there the time is only logged.
func TestTCPConnectionSurvivesCut(t *testing.T) {
	s := newTunNetwork(t, 2)
	var l net.Listener
	var c net.Conn
	err := within(s.names[1], func() (err error) {
		l, err = tcp.Bind(s.net(1))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = within(s.names[0], func() (err error) {
		c, err = (&net.Dialer{Timeout: 5 * time.Second, Control: tcp.Patience}).Dial("tcp", s.net(1))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	known := true
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		_, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS)
		known = err == nil
	})
	s.part(0)
	for range 45 { // both sides send, as peers do
		for _, x := range []net.Conn{c, peer} {
			if _, err := x.Write([]byte{1}); err != nil {
				t.Fatalf("write during the cut: %v", err)
			}
		}
		time.Sleep(time.Second)
	}
	repaired := time.Now()
	s.part()
	for name, x := range map[string]net.Conn{"dialler": c, "listener": peer} {
		_ = x.SetReadDeadline(repaired.Add(time.Minute))
		if _, err := io.ReadFull(x, make([]byte, 45)); err != nil {
			t.Fatalf("%s: error %v", name, err)
		}
		took := time.Since(repaired)
		t.Logf("%s received all data %v after the cut, want at most two seconds", name, took.Round(time.Millisecond))
		if known && took > 5*time.Second {
			t.Errorf("%s received all data %v after the cut, want at most two seconds", name, took)
		}
	}
}
