package parameters

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
)

// Version is a protocol version together with its numbering, because 86 has two meanings (see
// features). The numbering is fixed for a chain and stored with its genesis. The number follows the
// epochs.
type Version struct {
	Protocol  primitives.ProtocolVersion
	Numbering primitives.Numbering
}

// June returns v in the numbering of the June build of nearcore, on which the recordings were made.
func June(v primitives.ProtocolVersion) Version { return Version{v, primitives.NumberingJune} }

// Release returns v in the numbering of nearcore's published releases.
func Release(v primitives.ProtocolVersion) Version { return Version{v, primitives.NumberingRelease} }

// String returns e.g. "86 (june)".
func (v Version) String() string { return fmt.Sprintf("%d (%s)", v.Protocol, v.Numbering) }

// ErrUnsupportedVersion means that a version cannot be executed: it is older than OldestProtocol,
// newer than Newest, or of an unknown numbering.
var ErrUnsupportedVersion = errors.New("unsupported protocol version")

// OldestProtocol is the first version with complete rules, in both numberings.
const OldestProtocol primitives.ProtocolVersion = 85

// newestRelease is the last version of the releases with complete rules: every feature up to it is
// built. It is what Newest returns.
const newestRelease primitives.ProtocolVersion = 88

// The last versions with known parameters. June's numbers end at 86; higher versions of that build
// are nightly. Tests reach the versions between newestRelease and lastRelease with MustGet and
// SupportForTest.
const (
	lastJune    primitives.ProtocolVersion = 86
	lastRelease primitives.ProtocolVersion = 88
)

// last returns the last version of n with known parameters; 0 for an unknown numbering.
func last(n primitives.Numbering) primitives.ProtocolVersion {
	switch n {
	case primitives.NumberingJune:
		return lastJune
	case primitives.NumberingRelease:
		return lastRelease
	}
	return 0
}

// Newest returns the last version of a numbering with complete rules: what a node supports, and
// what it votes for unless a schedule delays the vote. 0 for an unknown numbering.
func Newest(n primitives.Numbering) primitives.ProtocolVersion {
	if n == primitives.NumberingRelease {
		if v := supportedForTest.Load(); v != 0 {
			return primitives.ProtocolVersion(v)
		}
		return newestRelease
	}
	return last(n)
}

// supportedForTest replaces newestRelease in tests; 0: it does not.
var supportedForTest atomic.Uint32

// SupportForTest makes Newest of the releases return v until the test ends, so that a node behaves
// like an older binary, or runs a version whose rules are not complete yet. Not for parallel tests.
func SupportForTest(t interface{ Cleanup(func()) }, v primitives.ProtocolVersion) {
	if v < OldestProtocol || v > lastRelease {
		panic("parameters: no parameters of " + Release(v).String())
	}
	before := supportedForTest.Swap(uint32(v))
	t.Cleanup(func() { supportedForTest.Store(before) })
}

// Supported returns whether v can be executed.
func (v Version) Supported() bool {
	return v.Protocol >= OldestProtocol && v.Protocol <= Newest(v.Numbering)
}
