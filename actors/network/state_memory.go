package network

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/primitives"
)

// errManyParts means that a state part is dropped, because too many parts wait to be verified. It is
// requested again later, and its sender is not at fault.
var errManyParts = errors.New("network: too many state parts wait to be verified")

// verifiers returns how many state parts and headers are verified at once: one a processor, from 2 to
// 16.
func verifiers() int { return min(max(runtime.GOMAXPROCS(0), 2), 16) }

// admit counts an arrived state part against maxWaitingParts. The caller passes the returned size to release
// when the part is verified or dropped. The size of a header is 0. Errors: statesync.ErrPacked for a
// part above statesync.MaxPart, and errManyParts; then nothing is counted.
func (s *Status) admit(r *primitives.StateResponse) (size int64, err error) {
	if r.Part == nil {
		return 0, nil
	}
	size = int64(len(r.Part.Body))
	if size > statesync.MaxPart {
		return 0, fmt.Errorf("%w: the part has %d bytes, more than %d, the limit", statesync.ErrPacked, size, statesync.MaxPart)
	}
	for {
		old := s.statesWaiting.Load()
		if old+size > maxWaitingParts {
			return 0, fmt.Errorf("%w: %d bytes", errManyParts, old)
		}
		if s.statesWaiting.CompareAndSwap(old, old+size) {
			return size, nil
		}
	}
}

func (s *Status) release(size int64) { s.statesWaiting.Add(-size) }
