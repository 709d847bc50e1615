package config

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Version is a protocol version together with the line of numbers it belongs to: 86 means two things (next.md 2). The
// numbering is fixed for a chain and stored beside its genesis; the number follows the epochs.
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

// ErrUnsupportedVersion says that no rules are known for a version: it is older than 85, newer than what is built, or of
// an unknown numbering.
var ErrUnsupportedVersion = errors.New("unsupported protocol version")

// The versions whose rules are whole, in both numberings.
const (
	OldestProtocol primitives.ProtocolVersion = 85
	NewestProtocol primitives.ProtocolVersion = 86
)

// Supported tells whether v can be executed. A node votes for NewestProtocol.
func (v Version) Supported() bool {
	known := v.Numbering == primitives.NumberingJune || v.Numbering == primitives.NumberingRelease
	return known && v.Protocol >= OldestProtocol && v.Protocol <= NewestProtocol
}
