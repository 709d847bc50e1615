package contracts

import (
	"encoding/binary"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Program is a sequence of host calls for the probe. Bytes returns it as input of the method run,
// with the data after the code. Only NewestProbe has the host functions that were added after
// version 86.
type Program struct {
	code    []instruction
	results int
}

// Result is the n-th result of a run, as an argument of later calls.
type Result int

// Pointer is data of which only the address is an argument, like balances.
type Pointer []byte

// Amount is a balance as an argument: the address of 16 bytes.
func Amount(b primitives.Balance) Pointer {
	le := binary.LittleEndian.AppendUint64(nil, b.Lo)
	return binary.LittleEndian.AppendUint64(le, b.Hi)
}

type instruction struct {
	op   byte
	args []any // arguments of type uint64, Result, Pointer or skip
}

// skip is an argument that the encoding replaces by the length of the skipped code in bytes.
type skip struct{ over []instruction }

func (x instruction) size() int { return 1 + bytesPerOpArg*len(x.args) }

func codeSize(code []instruction) (n int) {
	for _, x := range code {
		n += x.size()
	}
	return n
}

// Call adds a call of a host function. A string or byte slice becomes two arguments, length and
// address. A Pointer becomes one argument, the address. A Result or integer is passed as it is.
// Call returns the Result if the function has one, otherwise -1.
func (p *Program) Call(name string, args ...any) Result {
	for op, f := range allFunctions {
		if f.name != name {
			continue
		}
		var flat []any
		for _, a := range args {
			switch a := a.(type) {
			case string:
				flat = append(flat, uint64(len(a)), Pointer(a))
			case []byte:
				flat = append(flat, uint64(len(a)), Pointer(a))
			case Pointer, Result, uint64:
				flat = append(flat, a)
			case int:
				flat = append(flat, uint64(a))
			default:
				panic(fmt.Sprintf("contracts: no encoding for an argument of type %T", a))
			}
		}
		if len(flat) != f.params {
			panic(fmt.Sprintf("contracts: %d arguments for %s, want %d", len(flat), name, f.params))
		}
		return p.add(byte(op), f.result > 0, flat...)
	}
	panic("contracts: the probe contract has no host function " + name)
}

func (p *Program) add(op byte, result bool, args ...any) Result {
	p.code = append(p.code, instruction{op, args})
	if !result {
		return -1
	}
	p.results++
	return Result(p.results - 1)
}

// Loop adds an instruction that runs an empty loop of n iterations.
func (p *Program) Loop(n uint64) { p.add(opLoop, false, n) }

// Grow adds memory.grow. The result is the old size in pages, or 2^64-1.
func (p *Program) Grow(pages uint64) Result { return p.add(opGrow, true, pages) }

// Trap adds the instruction unreachable.
func (p *Program) Trap() { p.add(opTrap, false) }

// Fill adds memory.fill of n bytes.
func (p *Program) Fill(to, value, n uint64) { p.add(opFill, false, to, value, n) }

// Copy adds memory.copy of n bytes.
func (p *Program) Copy(to, from, n uint64) { p.add(opCopy, false, to, from, n) }

// GiveResults adds a value_return of all results so far, as 8-byte words.
func (p *Program) GiveResults() { p.add(opGiveResults, false, uint64(p.results)) }

// IfNotZero adds another program that runs only if a result is not zero. Create it with Branch, so
// that its results have the numbers that follow those of p.
func (p *Program) IfNotZero(r Result, then *Program) {
	p.add(opSkipIfZero, false, r, skip{then.code})
	p.code = append(p.code, then.code...)
	p.results = max(p.results, then.results)
}

// Branch returns an empty program for IfNotZero, whose results are numbered after p's.
func (p *Program) Branch() *Program { return &Program{results: p.results} }

// Bytes encodes the program as input of the probe.
func (p *Program) Bytes() []byte {
	at := uint64(ProbeBase + codeSize(p.code) + 1)
	var code, data []byte
	for _, x := range p.code {
		code = append(code, x.op)
		for _, a := range x.args {
			kind, v := byte(0), uint64(0)
			switch a := a.(type) {
			case uint64:
				v = a
			case Result:
				kind, v = 1, uint64(a)
			case Pointer:
				v = at + uint64(len(data))
				data = append(data, a...)
			case skip:
				v = uint64(codeSize(a.over))
			}
			code = binary.LittleEndian.AppendUint64(append(code, kind), v)
		}
	}
	return append(append(code, opEnd), data...)
}
