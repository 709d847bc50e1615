package check

import (
	"math"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Limits of wasmparser 0.228. A contract of 4 MiB can exceed each of them.
const (
	maxTypeSize = 1_000_000 // maximum total size of the types of all imports and exports; see addTypeSize
	maxParams   = 1_000     // maximum number of parameters of a function
	maxTables   = 100
	maxSegments = 100_000 // maximum number of data segments, and of element segments
	maxPages    = 1 << 16 // maximum size of a memory in pages of 64 KiB
)

// The sections' ids.
const (
	sectionCustom = iota
	sectionType
	sectionImport
	sectionFunction
	sectionTable
	sectionMemory
	sectionGlobal
	sectionExport
	sectionStart
	sectionElement
	sectionCode
	sectionData
	sectionDataCount
	sectionTag
)

// rank is the position of each section in a module. It differs from the order of the ids: data
// count comes before code.
var rank = [...]int{sectionType: 1, sectionImport: 2, sectionFunction: 3, sectionTable: 4, sectionMemory: 5,
	sectionTag: 6, sectionGlobal: 7, sectionExport: 8, sectionStart: 9, sectionElement: 10, sectionDataCount: 11,
	sectionCode: 12, sectionData: 13}

// The kinds of imports and exports.
const (
	kindFunc = iota
	kindTable
	kindMemory
	kindGlobal
	kindTag
)

// module is the state of a pass over a module.
type module struct {
	Module
	limits parameters.Limits
	costs  costs
	each   func(*Module, *Body) // called with each body; nil: not called
	take   func(*body) *Error   // called with each valid body (method count); nil: bodies are only validated

	pending  []pending // imports that checkImports has yet to check
	memories int
	declared []uint64

	hasImports, hasGlobals bool // the section exists, even if it is empty
	defined                int  // number of functions with a body
	hasCode                bool
	typeSize               uint32
	funcsLeft, localsLeft  uint64
	paramsLeft, blocksLeft uint64
	size                   sizes
	// late is the first rule of nearcore's instrumentation that the module breaks. The validation
	// returns this error at its end.
	late *Error
}

func newModule(code []byte, limits parameters.Limits) *module {
	return &module{Module: Module{Code: code, DataCount: -1}, limits: limits, typeSize: 1,
		funcsLeft: limits.MaxFunctionsNumberPerContract, localsLeft: LocalsLimit(len(code), &limits),
		paramsLeft: limits.MaxParamsPerContract, blocksLeft: limits.MaxBlocksPerContract}
}

// LocalsLimit returns how many locals the functions of a module with size bytes of code may have in
// total. Parameters do not count. size includes custom sections (near-vm-runner 0.38.0
// src/prepare/prepare_v3.rs:464).
func LocalsLimit(size int, limits *parameters.Limits) uint64 {
	if limits.MinContractSizePerLocal == 0 {
		return limits.MaxLocalsPerContract
	}
	return min(limits.MaxLocalsPerContract, uint64(size)/limits.MinContractSizePerLocal)
}

// unlimited returns limits that no module reaches.
func unlimited() parameters.Limits {
	return parameters.Limits{MaxFunctionsNumberPerContract: math.MaxUint64, MaxLocalsPerContract: math.MaxUint64,
		MaxTablesPerContract: math.MaxUint64, MaxElementsPerContractTable: math.MaxUint64,
		MaxFunctionBodySize: math.MaxUint64, MaxTypesPerContract: math.MaxUint64}
}

// run makes a pass over the module.
func (m *module) run() *Error {
	r := reader{buf: m.Code}
	if len(m.Code) < 8 || string(m.Code[:8]) != "\x00asm\x01\x00\x00\x00" {
		return invalid(0, "no header of a module")
	}
	r.pos = 8
	last := 0
	for !r.eof() {
		at := r.offset()
		id := r.u8()
		n := r.u32()
		if r.bad != "" {
			return r.err()
		}
		if id == sectionCode {
			if err := m.codeSection(&r, int(n), &last); err != nil {
				return err
			}
			continue
		}
		if id == sectionCustom { // the section is not kept, but its name must be valid
			c := r.sub(int(n))
			if c.name(); r.bad != "" || c.bad != "" {
				return invalid(at, "malformed custom section")
			}
			continue
		}
		s := r.sub(int(n))
		if r.bad != "" {
			return r.err()
		}
		if id >= sectionTag {
			return invalid(at, "unknown section")
		}
		if err := m.section(id, &s, &last); err != nil {
			return err
		}
	}
	if m.DataCount >= 0 && m.DataCount != m.Datas {
		return invalid(r.offset(), "data count and data sections differ")
	}
	if m.defined > 0 && !m.hasCode {
		return invalid(r.offset(), "functions without code section")
	}
	return nil
}

// order checks that a section comes after all sections that must precede it.
func (m *module) order(id byte, last *int, at int) *Error {
	if rank[id] <= *last {
		return invalid(at, "section out of order")
	}
	*last = rank[id]
	return nil
}

// section reads any section except the code section.
func (m *module) section(id byte, s *reader, last *int) *Error {
	at := s.offset()
	switch id {
	// The content of these sections is a single number.
	case sectionStart, sectionDataCount:
		v := s.u32()
		if s.bad != "" || !s.eof() {
			return invalid(at, "not one number")
		}
		if err := m.order(id, last, at); err != nil {
			return err
		}
		if id == sectionStart {
			return m.setStart(v, at)
		}
		if v > maxSegments {
			return invalid(at, "too many data segments")
		}
		m.DataCount = int(v)
		m.size.dataCount = section(len(s.buf))
		return nil
	}
	count := s.u32()
	if s.bad != "" {
		return s.err()
	}
	if id == sectionType && uint64(count) > m.limits.MaxTypesPerContract {
		return &Error{Kind: primitives.PrepareTooManyTypes, Offset: at, Reason: "too many types"}
	}
	if err := m.order(id, last, at); err != nil {
		return err
	}
	item := m.begin(id, s, count)
	for i := uint32(0); i < count && s.bad == ""; i++ {
		item(s)
	}
	if s.bad == "" && !s.eof() {
		s.fail("section longer than its items")
	}
	if s.bad != "" {
		return s.err()
	}
	return m.finish(id, at)
}

// begin returns the function that reads one item of the section.
func (m *module) begin(id byte, s *reader, count uint32) func(*reader) {
	switch id {
	case sectionType:
		return m.typeItem
	case sectionImport:
		m.hasImports = true
		return m.importItem
	case sectionFunction:
		m.defined = int(count)
		return m.functionItem
	case sectionTable:
		if count > maxTables {
			s.fail("too many tables")
		}
		m.size.table = section(len(s.buf))
		return m.tableItem
	case sectionMemory:
		if count > 1 {
			s.fail("multiple memories")
		}
		return m.memoryItem
	case sectionGlobal:
		m.hasGlobals = true
		return m.globalItem
	case sectionExport:
		return m.exportItem
	case sectionElement:
		if count > maxSegments {
			s.fail("too many element segments")
		}
		m.Elements = s.buf
		return m.elementItem
	}
	if count > maxSegments {
		s.fail("too many data segments")
	}
	m.Datas = int(count)
	m.Data = s.buf
	m.size.data = section(len(s.buf))
	return m.dataItem
}

// finish checks the rules that apply once a whole section is valid.
func (m *module) finish(id byte, at int) *Error {
	switch id {
	case sectionImport:
		return m.checkImports(at)
	case sectionExport:
		return m.checkExports(at)
	case sectionTable:
		if uint64(len(m.Tables)) > m.limits.MaxTablesPerContract {
			return &Error{Kind: primitives.PrepareTooManyTables, Offset: at, Reason: "too many tables"}
		}
		for _, t := range m.Tables {
			if uint64(t.Min) > m.limits.MaxElementsPerContractTable {
				return &Error{Kind: primitives.PrepareTooManyTableElements, Offset: at, Reason: "table too large"}
			}
		}
	}
	return nil
}
