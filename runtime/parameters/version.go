package parameters

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Version is a protocol version together with its numbering, because 86 has two meanings (see
// Feature). The numbering is fixed for a chain and stored with its genesis. The number follows the
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

// ErrUnsupportedVersion means that no rules are known for a version: it is older than 85, newer
// than the newest implemented one, or of an unknown numbering.
var ErrUnsupportedVersion = errors.New("unsupported protocol version")

// OldestProtocol is the first version with complete rules, in both numberings.
const OldestProtocol primitives.ProtocolVersion = 85

// The last versions with complete rules. June's numbers end at 86; what that build has beyond is
// nightly.
const (
	newestJune    primitives.ProtocolVersion = 86
	newestRelease primitives.ProtocolVersion = 86
)

// Newest returns the last version of a numbering with complete rules, which a node votes for; 0 for
// an unknown numbering.
func Newest(n primitives.Numbering) primitives.ProtocolVersion {
	switch n {
	case primitives.NumberingJune:
		return newestJune
	case primitives.NumberingRelease:
		return newestRelease
	}
	return 0
}

// Supported returns whether v can be executed.
func (v Version) Supported() bool {
	return v.Protocol >= OldestProtocol && v.Protocol <= Newest(v.Numbering)
}
