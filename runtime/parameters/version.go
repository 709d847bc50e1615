package parameters

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
)

// Version is a protocol version with its numbering. The number alone is ambiguous: 86 has different
// features in the two numberings (see features). A chain stores its numbering with its genesis and
// never changes it. The protocol version can change with each epoch.
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

// ErrUnsupportedVersion means that this program cannot execute a version: the version is below
// OldestProtocol, above Newest, or of an unknown numbering.
var ErrUnsupportedVersion = errors.New("unsupported protocol version")

// OldestProtocol is the first version with complete rules, in both numberings.
const OldestProtocol primitives.ProtocolVersion = 85

// newestRelease is the last version in the numbering release with complete rules: this program
// implements every feature up to newestRelease. Newest returns newestRelease.
const newestRelease primitives.ProtocolVersion = 88

// The last versions with known parameters, per numbering. In june, numbers above 86 are nightly.
// Tests reach the versions between newestRelease and lastRelease with MustGet and SupportForTest.
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

// Newest returns the last version of a numbering with complete rules; 0 for an unknown numbering. A
// node supports this version, and votes for it unless a schedule delays the vote.
func Newest(n primitives.Numbering) primitives.ProtocolVersion {
	if n == primitives.NumberingRelease {
		if v := supportedForTest.Load(); v != 0 {
			return primitives.ProtocolVersion(v)
		}
		return newestRelease
	}
	return last(n)
}

// supportedForTest replaces newestRelease in tests, unless it is 0.
var supportedForTest atomic.Uint32

// SupportForTest makes Newest return v for the numbering release until the test ends. A node then
// behaves like a binary that knows only versions up to v, or runs a version whose rules are not
// complete yet. Parallel tests must not call SupportForTest.
func SupportForTest(t interface{ Cleanup(func()) }, v primitives.ProtocolVersion) {
	if v < OldestProtocol || v > lastRelease {
		panic("parameters: no parameters of " + Release(v).String())
	}
	before := supportedForTest.Swap(uint32(v))
	t.Cleanup(func() { supportedForTest.Store(before) })
}

// GenesisOnly returns whether v is the version of the public networks' genesis. This program can
// execute no block of that version. A chain that begins with that version continues by an epoch
// sync proof and the state of a block after it.
func (v Version) GenesisOnly() bool {
	return v.Protocol == primitives.ProdGenesisProtocolVersion && last(v.Numbering) != 0
}

// Supported returns whether v can be executed.
func (v Version) Supported() bool {
	return v.Protocol >= OldestProtocol && v.Protocol <= Newest(v.Numbering)
}
