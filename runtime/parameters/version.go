package parameters

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Version is a protocol version together with the line of numbers it belongs to: 86 means two
// things (next.md 2). The numbering is fixed for a chain and stored beside its genesis; the number
// follows the epochs.
type Version struct {
	Protocol  primitives.ProtocolVersion
	Numbering primitives.Numbering
}

// June is v in the numbering of the June build, that of the recordings.
func June(v primitives.ProtocolVersion) Version { return Version{v, primitives.NumberingJune} }

// Release is v in the numbering of the published releases.
func Release(v primitives.ProtocolVersion) Version { return Version{v, primitives.NumberingRelease} }

// String returns e.g. "86 (june)".
func (v Version) String() string { return fmt.Sprintf("%d (%s)", v.Protocol, v.Numbering) }

// ErrUnsupportedVersion says that no rules are known for a version: it is older than 85, newer than
// what is built, or of an unknown numbering.
var ErrUnsupportedVersion = errors.New("unsupported protocol version")

// OldestProtocol is the first version whose rules are whole, in both numberings.
const OldestProtocol primitives.ProtocolVersion = 85

// The last versions whose rules are whole. June's numbers end at 86: what that build has beyond is
// nightly's.
const (
	newestJune    primitives.ProtocolVersion = 86
	newestRelease primitives.ProtocolVersion = 86
)

// Newest returns the last version of a numbering whose rules are whole, which is what a node votes
// for; 0 for a numbering that nobody knows.
func Newest(n primitives.Numbering) primitives.ProtocolVersion {
	switch n {
	case primitives.NumberingJune:
		return newestJune
	case primitives.NumberingRelease:
		return newestRelease
	}
	return 0
}

// Supported tells whether v can be executed.
func (v Version) Supported() bool {
	return v.Protocol >= OldestProtocol && v.Protocol <= Newest(v.Numbering)
}
