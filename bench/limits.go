package bench

import (
	"crypto/sha256"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/bench/load"
	"github.com/troupe-chain/troupe/primitives"
)

// Limits are the measured speeds of the machine.
type Limits = load.Limits

// each is the duration of one measurement.
const each = 300 * time.Millisecond

// MeasureLimits measures the machine, which takes about three seconds. dir is a folder for the file
// of the fsync measurement.
func MeasureLimits(dir string) (l Limits, err error) {
	l.SHA256Seconds = perCall(func(n int) {
		var b [64]byte
		for range n {
			h := sha256.Sum256(b[:])
			copy(b[:], h[:])
		}
	})
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "limits")
	message := primitives.HashBytes([]byte("limits"))
	signature, public := key.Sign(message[:]), key.PublicKey()
	verifier := primitives.NewVerifier(1)
	good := true
	l.ED25519Seconds = perCall(func(n int) {
		for range n {
			good = verifier.Verify(signature, message[:], public) && good
		}
	})
	if !good {
		return l, errors.New("bench: a valid signature was rejected")
	}
	l.MemoryReadSeconds = memoryRead()
	if l.FsyncSeconds, err = fsync(dir); err != nil {
		return l, err
	}
	if l.WakeSeconds, l.LateSeconds, err = wake(); err != nil {
		return l, err
	}
	l.HTTPRequests, l.HTTPConnections, err = emptyHTTP()
	return l, err
}

// perCall returns the processor time of one call. The result is the best of several runs, because
// other processes may use the machine meanwhile.
func perCall(run func(n int)) float64 {
	n := 1
	for {
		start := time.Now()
		run(n)
		if took := time.Since(start); took > each/8 {
			break
		}
		n *= 2
	}
	best := time.Duration(1<<63 - 1)
	for range 5 {
		cpu, start := cpuTime(), time.Now()
		run(n)
		took := cpuTime() - cpu
		if took == 0 { // 0 means that the time cannot be measured on this system
			took = time.Since(start)
		}
		best = min(best, took)
	}
	return best.Seconds() / float64(n)
}

// memoryRead measures dependent random reads: each read returns the address of the next. A node's
// walk through a large trie has this cost.
func memoryRead() float64 {
	const size = 256 << 20 / 64 // number of cache lines
	type line struct {
		next uint32
		_    [60]byte
	}
	lines := make([]line, size)
	at := uint32(0)
	// The generator has a full period (Hull and Dobell): the multiplier is 1 mod 4 and the
	// increment odd.
	for i := range uint32(size) {
		lines[i].next = (i*1664525 + 1013904223) % size
	}
	took := perCall(func(n int) {
		for range n {
			at = lines[at].next
		}
	})
	if at == size {
		panic("bench: unreachable, so that reads are not left out")
	}
	return took
}

// fsync returns the median time of appending 64 KiB to a file and syncing the file.
func fsync(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "troupe-bench-*")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(filepath.Join(f.Name())) }()
	defer func() { _ = f.Close() }()
	b := make([]byte, 64<<10)
	var took []time.Duration
	for start := time.Now(); len(took) < 11 || time.Since(start) < each; {
		at := time.Now()
		if _, err := f.Write(b); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	return took[len(took)/2].Seconds(), nil
}

// emptyHTTP returns the requests per second to an empty HTTP handler, with client and server on
// this machine, and the number of connections used.
func emptyHTTP() (rate float64, connections int, err error) {
	connections = 64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	server := &fasthttp.Server{Handler: func(*fasthttp.RequestCtx) {}}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	client := &fasthttp.HostClient{Addr: listener.Addr().String(), MaxConns: connections}
	counts := make([]int, connections)
	errs := make([]error, connections)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range connections {
		wg.Go(func() {
			var request fasthttp.Request
			var response fasthttp.Response
			request.SetRequestURI("http://" + client.Addr + "/")
			for time.Since(start) < 2*each {
				if errs[i] = client.Do(&request, &response); errs[i] != nil {
					return
				}
				counts[i]++
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	client.CloseIdleConnections()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / took.Seconds(), connections, errors.Join(append(errs, server.Shutdown(), <-done)...)
}
