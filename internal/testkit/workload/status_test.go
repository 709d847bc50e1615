package workload

import (
	"regexp"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

var errorName = regexp.MustCompile(`"([A-Z][A-Za-z]+)"`)

// Patterns for texts of execution errors, and for the varying parts in them.
var executionError, digits = regexp.MustCompile(`"ExecutionError":"([^"]*)`), regexp.MustCompile(`[0-9]+`)

// statusName is a short name of how something ended: the innermost error's.
func statusName(s *primitives.ExecutionStatus) string {
	if s.Kind != primitives.StatusFailure {
		return "ok"
	}
	var path []string
	for _, m := range errorName.FindAllStringSubmatch(string(s.Failure), -1) {
		path = append(path, m[1])
	}
	name := strings.Join(path, ".")
	if m := executionError.FindStringSubmatch(string(s.Failure)); m != nil {
		name += ": " + digits.ReplaceAllString(m[1], "N")
	}
	return name
}
