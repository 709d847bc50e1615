package bench

import (
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWakeSocketsAreNotInherited: the measurement uses sockets that no other process can reach.
func TestWakeSocketsAreNotInherited(t *testing.T) {
	sockets := func() int {
		said, err := exec.Command("ls", "-l", "/proc/self/fd").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: output %s", err, said)
		}
		return strings.Count(string(said), "socket:")
	}
	before := sockets()
	done := make(chan error, 1)
	go func() {
		_, _, err := wake()
		done <- err
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
			if has := sockets(); has != before {
				t.Errorf("a child has %d sockets, before %d", has, before)
				<-done
				return
			}
		}
	}
}

// TestNoReplyGivesNoRoundTrip: without a reply there is no figure.
func TestNoReplyGivesNoRoundTrip(t *testing.T) {
	pair, err := sockets()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(pair[0]) }()
	defer func() { _ = unix.Close(pair[1]) }()
	if err := unix.Shutdown(pair[1], unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	if took, err := roundTrips(pair[0]); err == nil {
		t.Errorf("got %d round trips without a reply", len(took))
	}
}
