package parameters

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// unconditional lists features that are on at every version that can be executed, so that no code checks for
// them. For each it has the file with the rule and a word in that file. A feature may also be listed if this
// node follows the rule at earlier versions too, with the same result (earlier).
var unconditional = map[Feature]struct{ file, word string }{
	DynamicResharding:                             {"chain/epoch/sharding.go", "MayProposeSplit"},
	StickyReshardingValidatorAssignment:           {"chain/epoch/sticky_resharding.go", "stickyStrategy"},
	ValidateBlockOrdinalAndEpochSyncDataHash:      {"chain/validate.go", "InvalidEpochSyncDataHash"},
	AccountCostIncrease:                           {"runtime/fees/settle.go", "AccountCreationCharge"},
	FixDelegateActionDepositWithFunctionCallError: {"runtime/verify/charge.go", "KeyDepositWithFunctionCall"},
	FixDeleteAccountGlobalContractStorageUsage:    {"runtime/action/account.go", "IdentifierUsage"},
	ContinuousEpochSync:                           {"chain/epoch/supply.go", "EpochSyncDataHash"},
	GlobalContractSameChunkCallFix:                {"runtime/state/account.go", "broughtCode"},
}

// earlier lists features that this node follows at earlier versions too (see unconditional): a call finds
// global code that its own chunk distributed at every version, since reads see earlier writes of the chunk.
var earlier = map[Feature]bool{GlobalContractSameChunkCallFix: true}

// byNumber lists features whose rule is in a package below chain. These packages compare the number of the
// epoch's version, which is unambiguous because the other numbering ends before it. For each feature it has
// the file and the constant that must equal the number.
var byNumber = map[Feature]struct{ file, constant string }{
	RejectBlockHeaderV7BeforeSpice: {"chain/validate.go", "headerV7Rejected primitives.ProtocolVersion"},
	EarlyKickout:                   {"chain/epoch/early_kickout.go", "EarlyKickoutVersion primitives.ProtocolVersion"},
}

// ofTheNet lists features that concern only messages between nodes. No rule for chunks or blocks depends on
// them.
var ofTheNet = map[Feature]bool{SignedContractCodeResponse: true}

// TestEachBuiltFeatureIsCheckedByARule checks that each feature marked as built changes a
// parameter, is checked by some rule, or is in one of the lists above. Otherwise a version could
// count as supported although a rule is missing.
func TestEachBuiltFeatureIsCheckedByARule(t *testing.T) {
	t.Parallel()
	asked := referencedFeatures(t)
	for f := range numFeatures {
		row := &features[f]
		always := nonZero(row.june) <= OldestProtocol && nonZero(row.release) <= OldestProtocol
		place, unasked := unconditional[f]
		if (unasked || ofTheNet[f]) && !always && !earlier[f] {
			t.Errorf("%v is not in force at every version, so some rule has to ask for it", f)
		}
		if unasked {
			text, err := os.ReadFile(filepath.Join("../..", place.file))
			if err != nil || !strings.Contains(string(text), place.word) {
				t.Errorf("%v: %s has no %s (%v)", f, place.file, place.word, err)
			}
		}
		numbered, byItsNumber := byNumber[f]
		if byItsNumber {
			text, err := os.ReadFile(filepath.Join("../..", numbered.file))
			if want := fmt.Sprintf("%s = %d\n", numbered.constant, row.release); err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%v: %s has no %s (%v)", f, numbered.file, want, err)
			}
			if row.june != 0 && row.june <= lastJune || row.release <= lastJune {
				t.Errorf("%v: its number has another meaning in the numbering of June", f)
			}
		}
		if rules := byItsNumber || asked[f] || changesParameters(f) || unasked || ofTheNet[f]; row.built && !rules {
			t.Errorf("%v counts as built, but changes no parameter and no rule refers to it", f)
		}
		if !row.built && asked[f] {
			t.Errorf("%v: a rule refers to it, but no version enables it", f)
		}
	}
}

// TestFeatureChangesParameterAtItsVersion checks that features which change parameters do so at
// their version, whether or not they are built.
func TestFeatureChangesParameterAtItsVersion(t *testing.T) {
	t.Parallel()
	for _, f := range []Feature{
		GasKeys, YieldWithID, FixContractLoadingError, RemoveGasRewards, FixContractLoadingCost, UniversalAccounts, CanonicalUniversalStateInit,
	} {
		if !changesParameters(f) {
			t.Errorf("%v changes no parameter", f)
		}
	}
	if changesParameters(StrictNonce) {
		t.Error("StrictNonce changes a parameter: changesParameters returns true for an unrelated feature")
	}
}

// changesParameters returns whether the parameters at a feature's first version depend on it.
func changesParameters(f Feature) bool {
	row := &features[f]
	before := *row
	defer func() { *row = before }()
	for n, since := range map[primitives.Numbering]primitives.ProtocolVersion{
		primitives.NumberingJune: row.june, primitives.NumberingRelease: row.release,
	} {
		if since == 0 {
			continue
		}
		on := values(Version{since, n})
		row.june, row.release = 0, 0
		off := values(Version{since, n})
		*row = before
		if !reflect.DeepEqual(on, off) {
			return true
		}
	}
	return false
}

// referencedFeatures returns the features that non-test code outside of this package refers to.
func referencedFeatures(t *testing.T) map[Feature]bool {
	t.Helper()
	names := goNames(t)
	found := map[Feature]bool{}
	for _, root := range []string{"../../runtime", "../../chain", "../../engine"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.HasPrefix(path, "../../runtime/parameters/") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "parameters" {
						if f, ok := names[s.Sel.Name]; ok {
							found[f] = true
						}
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// goNames returns the values of the constants in features.go by name. The order of the constants determines
// their values.
func goNames(t *testing.T) map[string]Feature {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "features.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]Feature{}
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for i, s := range g.Specs {
				names[s.(*ast.ValueSpec).Names[0].Name] = Feature(i)
			}
			break
		}
	}
	if names["numFeatures"] != numFeatures {
		t.Fatalf("features.go has %d constants before numFeatures, not %d", names["numFeatures"], numFeatures)
	}
	return names
}
