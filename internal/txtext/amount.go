package txtext

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// decimals is the number of digits of a NEAR below the point.
const decimals = 24

// NEAR formats an amount exactly: "1.5 NEAR", "0.000000000000000000000001 NEAR", "0 NEAR".
func NEAR(b primitives.Balance) string {
	digits := b.String()
	if missing := decimals + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	whole, fraction := digits[:len(digits)-decimals], strings.TrimRight(digits[len(digits)-decimals:], "0")
	if fraction == "" {
		return whole + " NEAR"
	}
	return whole + "." + fraction + " NEAR"
}

// ShortNEAR formats an amount with five decimals, rounded down: "0.00024 NEAR". An amount below
// 0.00001 NEAR is "<0.00001 NEAR", or "1 yoctoNEAR" if that has at most six digits.
func ShortNEAR(b primitives.Balance) string {
	const shown = 5
	whole, fraction, ok := strings.Cut(strings.TrimSuffix(NEAR(b), " NEAR"), ".")
	if !ok {
		return whole + " NEAR"
	}
	fraction = strings.TrimRight(fraction[:min(shown, len(fraction))], "0")
	switch {
	case fraction != "":
		return whole + "." + fraction + " NEAR"
	case whole != "0":
		return whole + " NEAR"
	}
	if digits := b.String(); len(digits) <= 6 {
		return digits + " yoctoNEAR"
	}
	return "<0.00001 NEAR"
}

var errAmount = errors.New("not an amount: write, for example, 1.5 (in NEAR) or 100yocto")

// ParseNEAR parses an amount: "1.5", "1.5 NEAR" or "1.5near" in NEAR, "100 yocto", "100yoctoNEAR" or
// "100y" in yoctoNEAR.
func ParseNEAR(text string) (primitives.Balance, error) {
	t := strings.ToLower(strings.TrimSpace(text))
	for _, unit := range []string{"yoctonear", "yocto", "y"} {
		if n, ok := strings.CutSuffix(t, unit); ok {
			return parseYocto(strings.TrimSpace(n))
		}
	}
	t = strings.TrimSpace(strings.TrimSuffix(t, "near"))
	whole, fraction, _ := strings.Cut(t, ".")
	if whole == "" {
		whole = "0"
	}
	if len(fraction) > decimals {
		return primitives.Balance{}, fmt.Errorf("more than %d decimals", decimals)
	}
	if t == "" || t == "." {
		return primitives.Balance{}, errAmount
	}
	return parseYocto(whole + fraction + strings.Repeat("0", decimals-len(fraction)))
}

func parseYocto(digits string) (primitives.Balance, error) {
	if strings.Trim(digits, "0123456789") != "" || digits == "" {
		return primitives.Balance{}, errAmount
	}
	b, err := primitives.ParseBalance(digits)
	if err != nil { // all are digits
		return b, errors.New("an amount must be below 2^128 yoctoNEAR")
	}
	return b, nil
}

// Gas formats gas in Tgas with four decimals at most: "2.4279 Tgas".
func Gas(g primitives.Gas) string {
	text := strconv.FormatFloat(float64(g)/1e12, 'f', 4, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + " Tgas"
}
