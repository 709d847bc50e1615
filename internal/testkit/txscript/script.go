package txscript

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// ParseAction reads one action of a script:
//
//	call METHOD [gas=30T] [deposit=1] [ARGS]
//	     ARGS is the rest of the line: JSON, @CONTRACT for the code of a test contract, or 0x and hex
//	transfer AMOUNT | create | deploy CONTRACT | delete BENEFICIARY
//	global CONTRACT | global-by-account CONTRACT | use ACCOUNT | use-hash CONTRACT
//
//	init NAME [AMOUNT]: the state init of the universal account @NAME, with a deposit
func (w *World) ParseAction(line string) (primitives.Action, error) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	switch verb {
	case "call":
		return parseCall(rest)
	case "transfer":
		amount, err := ParseAmount(rest)
		return &primitives.Transfer{Deposit: amount}, err
	case "init":
		name, deposit, _ := strings.Cut(rest, " ")
		raw, _ := w.Universal(name)
		amount, err := ParseAmount(cmp.Or(deposit, "0"))
		return &primitives.UniversalStateInit{Init: raw, Deposit: amount}, err
	case "create":
		return &primitives.CreateAccount{}, nil
	case "deploy":
		return &primitives.DeployContract{Code: code(rest)}, nil
	case "delete":
		return &primitives.DeleteAccount{Beneficiary: w.Named(rest)}, nil
	case "global":
		return &primitives.DeployGlobalContract{Code: code(rest), Mode: primitives.GlobalByCodeHash}, nil
	case "global-by-account":
		return &primitives.DeployGlobalContract{Code: code(rest), Mode: primitives.GlobalByAccountID}, nil
	case "use":
		return &primitives.UseGlobalContract{ID: primitives.GlobalContractID{Account: primitives.AccountID(rest)}}, nil
	case "use-hash":
		return &primitives.UseGlobalContract{ID: primitives.GlobalContractID{Hash: primitives.HashBytes(code(rest))}}, nil
	}
	return nil, fmt.Errorf("txscript: unknown action %q", verb)
}

// code returns the code of a test contract by its name.
func code(name string) []byte {
	if name == "probe" {
		return contracts.Probe()
	}
	return contracts.C(name)
}

func parseCall(rest string) (primitives.Action, error) {
	f := &primitives.FunctionCall{Gas: 100_000_000_000_000}
	f.Method, rest, _ = strings.Cut(rest, " ")
	for {
		word, more, _ := strings.Cut(rest, " ")
		key, value, ok := strings.Cut(word, "=")
		if !ok || key != "gas" && key != "deposit" {
			break
		}
		var err error
		if key == "gas" {
			f.Gas, err = parseGas(value)
		} else {
			f.Deposit, err = ParseAmount(value)
		}
		if err != nil {
			return nil, err
		}
		rest = more
	}
	switch {
	case strings.HasPrefix(rest, "@"):
		f.Args = code(rest[1:])
	case strings.HasPrefix(rest, "0x"):
		b, err := hex.DecodeString(rest[2:])
		if err != nil {
			return nil, err
		}
		f.Args = b
	default:
		f.Args = []byte(rest)
	}
	return f, nil
}

func parseGas(text string) (primitives.Gas, error) {
	digits, tera := strings.CutSuffix(text, "T")
	n, err := strconv.ParseUint(digits, 10, 64)
	if tera {
		n *= 1_000_000_000_000
	}
	return primitives.Gas(n), err
}

// ParseAmount parses an amount in yoctoNEAR, or in NEAR if it ends with N.
func ParseAmount(text string) (primitives.Balance, error) {
	digits, near := strings.CutSuffix(text, "N")
	if near {
		n, err := strconv.ParseUint(digits, 10, 32)
		return primitives.NEAR(n), err
	}
	return primitives.ParseBalance(digits)
}
