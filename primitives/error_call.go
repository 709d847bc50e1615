package primitives

// FunctionCallTag names a variant of FunctionCallError. A tag is itself an error, for errors.Is.
type FunctionCallTag byte

// The variants, by their borsh discriminants (nearcore core/primitives/src/errors.rs
// FunctionCallError). New executions only make CallCompilation, CallMethodResolve and
// CallExecution. All other variants occur only in outcomes of old blocks.
const (
	CallCompilation   FunctionCallTag = iota // field Compilation
	CallLink                                 // field Message
	CallMethodResolve                        // field Method
	CallWasmTrap                             // field Trap
	CallWasmUnknown                          //
	CallHost                                 // field Host
	CallEVM                                  //
	CallExecution                            // field Message: the text of a host error, trap or panic
)

// FunctionCallError is why a contract call failed. The comments of the tags list the fields that
// apply.
type FunctionCallError struct {
	Tag         FunctionCallTag
	Compilation *CompilationError
	Method      MethodResolveError
	Trap        WasmTrap
	Host        *HostError
	Message     string
}

var functionCallRows = []errRow[FunctionCallError]{
	CallCompilation: {name: "CompilationError", inner: func(e *FunctionCallError) any { return pointee(&e.Compilation) }},
	CallLink: {name: "LinkError", fields: func(e *FunctionCallError) []errField {
		return []errField{{"msg", &e.Message}}
	}},
	CallMethodResolve: {name: "MethodResolveError", inner: func(e *FunctionCallError) any { return &e.Method }},
	CallWasmTrap:      {name: "WasmTrap", inner: func(e *FunctionCallError) any { return &e.Trap }},
	CallWasmUnknown:   {name: "WasmUnknownError"},
	CallHost:          {name: "HostError", inner: func(e *FunctionCallError) any { return pointee(&e.Host) }},
	CallEVM:           {name: "_EVMError"},
	CallExecution:     {name: "ExecutionError", inner: func(e *FunctionCallError) any { return &e.Message }},
}

// String returns nearcore's name of the variant.
func (t FunctionCallTag) String() string {
	return errName(functionCallRows, "FunctionCallError", int(t))
}

// Error returns the name.
func (t FunctionCallTag) Error() string { return t.String() }

// AppendJSON appends nearcore's JSON.
func (e *FunctionCallError) AppendJSON(b []byte) []byte {
	return appendError(b, functionCallRows, int(e.Tag), e)
}

// UnmarshalJSON reads nearcore's JSON.
func (e *FunctionCallError) UnmarshalJSON(in []byte) error {
	*e = FunctionCallError{}
	tag, err := decodeError(in, functionCallRows, e)
	e.Tag = FunctionCallTag(tag)
	return err
}

// Error returns the JSON.
func (e *FunctionCallError) Error() string { return "function call: " + string(e.AppendJSON(nil)) }

// Is returns whether target is e's tag.
func (e *FunctionCallError) Is(target error) bool { return target == e.Tag }

// CompilationTag names a variant of CompilationError.
type CompilationTag byte

// The variants.
const (
	CompilationCodeDoesNotExist CompilationTag = iota // field AccountID
	CompilationPrepare                                // field Prepare
	CompilationWasm                                   // field Message; the name is Wasmer for every engine
)

// CompilationError is why there is no module to run.
type CompilationError struct {
	Tag       CompilationTag
	AccountID AccountID
	Prepare   PrepareError
	Message   string
}

var compilationRows = []errRow[CompilationError]{
	CompilationCodeDoesNotExist: {name: "CodeDoesNotExist", fields: func(e *CompilationError) []errField {
		return []errField{{"account_id", &e.AccountID}}
	}},
	CompilationPrepare: {name: "PrepareError", inner: func(e *CompilationError) any { return &e.Prepare }},
	CompilationWasm: {name: "WasmerCompileError", fields: func(e *CompilationError) []errField {
		return []errField{{"msg", &e.Message}}
	}},
}

// AppendJSON appends nearcore's JSON.
func (e *CompilationError) AppendJSON(b []byte) []byte {
	return appendError(b, compilationRows, int(e.Tag), e)
}

// UnmarshalJSON reads nearcore's JSON.
func (e *CompilationError) UnmarshalJSON(in []byte) error {
	*e = CompilationError{}
	tag, err := decodeError(in, compilationRows, e)
	e.Tag = CompilationTag(tag)
	return err
}

// Error returns the JSON.
func (e *CompilationError) Error() string { return "compilation: " + string(e.AppendJSON(nil)) }

// MethodResolveError is why a contract's method cannot be called.
type MethodResolveError byte

// The reasons.
const (
	MethodEmptyName MethodResolveError = iota
	MethodNotFound
	MethodInvalidSignature
)

// PrepareError is the rule that a contract's code breaks.
type PrepareError byte

// The rules.
const (
	PrepareSerialization PrepareError = iota
	PrepareDeserialization
	PrepareInternalMemoryDeclared
	PrepareGasInstrumentation
	PrepareStackHeightInstrumentation
	PrepareInstantiate
	PrepareMemory
	PrepareTooManyFunctions
	PrepareTooManyLocals
	PrepareTooManyTables
	PrepareTooManyTableElements
	PrepareFunctionBodyTooLarge
	PrepareInstrumentedCodeTooLarge
	PrepareTooManyBlocksPerFunction
	PrepareTooManyBlocksPerContract
	PrepareTooManyTypes
	PrepareTooManyParamsPerFunction
	PrepareTooManyParamsPerContract
	PrepareOperandStackTooLarge
	PrepareTooManyGlobals // only in nightly builds
)

// WasmTrap is why a module was stopped.
type WasmTrap byte

// The traps.
const (
	TrapUnreachable WasmTrap = iota
	TrapIncorrectCallIndirectSignature
	TrapMemoryOutOfBounds
	TrapCallIndirectOOB
	TrapIllegalArithmetic
	TrapMisalignedAtomicAccess
	TrapIndirectCallToNull
	TrapStackOverflow
	TrapGeneric
)

var (
	methodResolveRows = bareRows[MethodResolveError]("MethodEmptyName", "MethodNotFound", "MethodInvalidSignature")
	prepareRows       = bareRows[PrepareError]("Serialization", "Deserialization", "InternalMemoryDeclared",
		"GasInstrumentation", "StackHeightInstrumentation", "Instantiate", "Memory", "TooManyFunctions", "TooManyLocals",
		"TooManyTables", "TooManyTableElements", "FunctionBodyTooLarge", "InstrumentedCodeTooLarge",
		"TooManyBlocksPerFunction", "TooManyBlocksPerContract", "TooManyTypes", "TooManyParamsPerFunction",
		"TooManyParamsPerContract", "OperandStackTooLarge", "TooManyGlobals")
	wasmTrapRows = bareRows[WasmTrap]("Unreachable", "IncorrectCallIndirectSignature", "MemoryOutOfBounds",
		"CallIndirectOOB", "IllegalArithmetic", "MisalignedAtomicAccess", "IndirectCallToNull", "StackOverflow", "GenericTrap")
)

// bareRows returns the table of an enum without fields.
func bareRows[E any](names ...string) []errRow[E] {
	rows := make([]errRow[E], len(names))
	for i, n := range names {
		rows[i].name = n
	}
	return rows
}

// String returns nearcore's name.
func (e MethodResolveError) String() string {
	return errName(methodResolveRows, "MethodResolveError", int(e))
}

// AppendJSON appends the name in quotes.
func (e *MethodResolveError) AppendJSON(b []byte) []byte {
	return appendError(b, methodResolveRows, int(*e), e)
}

// UnmarshalJSON reads the name.
func (e *MethodResolveError) UnmarshalJSON(in []byte) error {
	tag, err := decodeError(in, methodResolveRows, e)
	*e = MethodResolveError(tag)
	return err
}

// String returns nearcore's name.
func (e PrepareError) String() string { return errName(prepareRows, "PrepareError", int(e)) }

// Error returns the name.
func (e PrepareError) Error() string { return e.String() }

// AppendJSON appends the name in quotes.
func (e *PrepareError) AppendJSON(b []byte) []byte { return appendError(b, prepareRows, int(*e), e) }

// UnmarshalJSON reads the name.
func (e *PrepareError) UnmarshalJSON(in []byte) error {
	tag, err := decodeError(in, prepareRows, e)
	*e = PrepareError(tag)
	return err
}

// String returns nearcore's name.
func (e WasmTrap) String() string { return errName(wasmTrapRows, "WasmTrap", int(e)) }

// AppendJSON appends the name in quotes.
func (e *WasmTrap) AppendJSON(b []byte) []byte { return appendError(b, wasmTrapRows, int(*e), e) }

// UnmarshalJSON reads the name.
func (e *WasmTrap) UnmarshalJSON(in []byte) error {
	tag, err := decodeError(in, wasmTrapRows, e)
	*e = WasmTrap(tag)
	return err
}
