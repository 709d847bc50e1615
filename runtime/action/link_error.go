package action

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// MaxMissingImports bounds LinkError.Missing.
const MaxMissingImports = 16

// LinkError is the Cause of an outcome whose contract imports what the protocol version does not
// have. The outcome keeps nearcore's text, which names nothing.
type LinkError struct {
	Missing []primitives.MissingImport // the first MaxMissingImports, without repetitions
	More    int                        // further missing imports
}

// Error lists the imports.
func (e *LinkError) Error() string {
	b := []byte("the contract imports host functions that the protocol version in force does not have: ")
	for i := range e.Missing {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, e.Missing[i].String()...)
	}
	if e.More > 0 {
		b = fmt.Appendf(b, " and %d more", e.More)
	}
	return string(b)
}
