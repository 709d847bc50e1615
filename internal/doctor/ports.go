package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/troupe-chain/troupe/internal/txtext"
)

// PortState is the result of an attempt to listen at an address.
type PortState string

// The states.
const (
	PortFree     PortState = "free"
	PortUsed     PortState = "in use"
	PortNoSuch   PortState = "no such address" // the machine does not have this address
	PortDenied   PortState = "denied"          // the port is below 1024 and the privilege is missing
	PortUnusable PortState = "unusable"        // listening fails for another reason
)

// Holder is the process that listens on a port.
type Holder struct {
	PID  int
	Name string // name of the process's program, escaped; empty: unknown
}

// String returns "PID 123 (name)". If the process is unknown, String returns an empty text.
func (h Holder) String() string {
	switch {
	case h.PID == 0:
		return ""
	case h.Name == "":
		return fmt.Sprintf("PID %d", h.PID)
	}
	return fmt.Sprintf("PID %d (%s)", h.PID, h.Name)
}

// PortAt returns the result of an attempt to listen at an address. If the address is in use, PortAt
// also returns the listening process, if the system reveals that process. PortAt opens and closes a
// listener.
func PortAt(a netip.AddrPort) (PortState, Holder) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), "tcp", a.String())
	switch {
	case err == nil:
		_ = l.Close()
		return PortFree, Holder{}
	case errors.Is(err, syscall.EADDRINUSE):
		return PortUsed, holder(a)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return PortNoSuch, Holder{}
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return PortDenied, Holder{}
	}
	return PortUnusable, Holder{}
}

// PortProblem returns why a node cannot listen at an address. The result is empty if a node can
// listen there.
func PortProblem(a netip.AddrPort) string {
	switch state, h := PortAt(a); state {
	case PortFree:
		return ""
	case PortUsed:
		if h.PID != 0 {
			return fmt.Sprintf("%v is in use by %v", a, h)
		}
		return fmt.Sprintf("%v is in use", a)
	case PortNoSuch:
		return fmt.Sprintf("%v: this machine has no address %v", a, a.Addr())
	case PortDenied:
		return fmt.Sprintf("%v: this user may not listen on port %d", a, a.Port())
	}
	return fmt.Sprintf("%v: the system does not allow to listen there", a)
}

// clean escapes an untrusted text and cuts the result to maxText bytes.
func clean(text string) string { return txtext.Line(text, maxText) }

// maxText is the maximum length in bytes of an untrusted text.
const maxText = 500
