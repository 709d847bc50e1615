package logic

import "github.com/troupe-chain/troupe/runtime/parameters"

// registers are byte strings in the host's memory, each with a number that the contract chooses (nearcore
// runtime/near-vm-runner/src/logic/vmstate.rs Registers). There are few of them, so the search is
// linear.
type registers struct {
	all   []register
	usage uint64 // sum of (length + 8)
}

type register struct {
	id   uint64
	data []byte // never changed
}

const registerOverhead = 8

func (r *registers) find(id uint64) int {
	for i := range r.all {
		if r.all[i].id == id {
			return i
		}
	}
	return -1
}

func (r *registers) get(id uint64) (data []byte, ok bool) {
	if i := r.find(id); i >= 0 {
		return r.all[i].data, true
	}
	return nil, false
}

// room returns the register into which n bytes can be written, or nil if a limit forbids it. If
// all registers are in use, an existing register cannot be written again either. That was a
// mistake in nearcore and is now a rule.
func (r *registers) room(id, n uint64, limits *parameters.Limits) *register {
	if n > limits.MaxRegisterSize || uint64(len(r.all)) >= limits.MaxNumberRegisters {
		return nil
	}
	i := r.find(id)
	usage := r.usage + n + registerOverhead // the limits are far below 2^63
	if i >= 0 {
		usage -= uint64(len(r.all[i].data)) + registerOverhead
	}
	if usage > limits.RegistersMemoryLimit {
		return nil
	}
	r.usage = usage
	if i < 0 {
		i = len(r.all)
		r.all = append(r.all, register{id: id})
	}
	return &r.all[i]
}

// readRegister (register_id, ptr) copies a register into memory.
func readRegister(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	data, err := l.arg(inRegister, a[0])
	if err != nil {
		return 0, err
	}
	return 0, l.write(a[1], data)
}

// registerLen (register_id) returns all ones if the register is not set.
func registerLen(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	if data, ok := l.registers.get(a[0]); ok {
		return uint64(len(data)), nil
	}
	return ^uint64(0), nil
}

// writeRegister (register_id, data_len, data_ptr) copies from memory. The source cannot be a
// register.
func writeRegister(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	data, err := l.read(a[2], a[1])
	if err != nil {
		return 0, err
	}
	return 0, l.copyToRegister(a[0], data)
}
