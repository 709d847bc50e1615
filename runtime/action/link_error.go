package action

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// MaxMissingImports is the maximum length of LinkError.Missing.
const MaxMissingImports = 16

// LinkError is the Cause of an outcome if the contract imports functions that the protocol version does not
// have. The error text of the outcome is nearcore's, which does not name the functions.
type LinkError struct {
	Missing []primitives.MissingImport // distinct missing imports, at most MaxMissingImports
	More    int                        // number of missing imports that are not in Missing
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
