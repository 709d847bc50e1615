package bench

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"time"
)

// Throughput has measured speeds of the machine, in bytes per second.
type Throughput struct {
	DiskWrite float64 `json:"disk_write"` // sequential, with a sync at the end
	DiskRead  float64 `json:"disk_read"`  // sequential, without the page cache on Linux
	Loopback  float64 `json:"loopback"`   // one TCP connection of this machine to itself
}

// Amounts that measureThroughput moves, in bytes.
const (
	throughputDisk     = 1 << 30
	throughputLoopback = 4 << 30
	throughputBlock    = 1 << 20
)

// measureThroughput measures in some seconds. dir is a folder for a temporary file of a GiB.
func measureThroughput(dir string) (t Throughput, err error) {
	if t.DiskWrite, t.DiskRead, err = diskThroughput(dir, throughputDisk); err != nil {
		return t, err
	}
	t.Loopback, err = loopbackThroughput(throughputLoopback)
	return t, err
}

// diskThroughput writes and reads a file of random bytes.
func diskThroughput(dir string, size int) (write, read float64, err error) {
	f, err := os.CreateTemp(dir, "troupe-bench-*")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, throughputBlock)
	var rng rand.PCG
	fill(&rng, block)
	begun := time.Now()
	for range size / len(block) {
		if _, err := f.Write(block); err != nil {
			return 0, 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, 0, err
	}
	write = float64(size) / time.Since(begun).Seconds()
	dropCached(f)
	begun = time.Now()
	for at := int64(0); at < int64(size); at += int64(len(block)) {
		if _, err := f.ReadAt(block, at); err != nil {
			return 0, 0, err
		}
	}
	return write, float64(size) / time.Since(begun).Seconds(), nil
}

// loopbackThroughput sends bytes from one goroutine to another over TCP.
func loopbackThroughput(size int) (float64, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	sent := make(chan error, 1)
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			sent <- err
			return
		}
		block := make([]byte, throughputBlock)
		for range size / len(block) {
			if _, err = c.Write(block); err != nil {
				break
			}
		}
		sent <- errors.Join(err, c.Close())
	}()
	c, err := l.Accept()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, throughputBlock))
	took := time.Since(begun).Seconds()
	return float64(n) / took, errors.Join(err, <-sent, c.Close())
}
