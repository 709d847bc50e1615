package view

import "strconv"

// AppendTime appends a time in ns since 1970 as ISO 8601 in UTC with nine digits of fraction, as
// nearcore prints times (core/time/src/serde.rs serde_utc_as_iso). It does not use package time,
// which this package must not import.
func AppendTime(b []byte, ns uint64) []byte {
	b = appendSeconds(append(b, '"'), ns/1e9)
	return append(appendPadded(append(b, '.'), ns%1e9, 9), 'Z', '"')
}

// AppendGenesisTime appends a time as the chrono library prints it in genesis and protocol config:
// like AppendTime, but with 0, 3, 6 or 9 digits of fraction, as many as needed.
func AppendGenesisTime(b []byte, ns uint64) []byte {
	b = appendSeconds(append(b, '"'), ns/1e9)
	switch fraction := ns % 1e9; {
	case fraction == 0:
	case fraction%1e6 == 0:
		b = appendPadded(append(b, '.'), fraction/1e6, 3)
	case fraction%1e3 == 0:
		b = appendPadded(append(b, '.'), fraction/1e3, 6)
	default:
		b = appendPadded(append(b, '.'), fraction, 9)
	}
	return append(b, 'Z', '"')
}

// appendSeconds appends the date and time of day without a fraction.
func appendSeconds(b []byte, seconds uint64) []byte {
	const day = 86_400
	year, month, dom := civil(seconds / day)
	clock := seconds % day
	b = appendPadded(b, year, 4)
	b = appendPadded(append(b, '-'), month, 2)
	b = appendPadded(append(b, '-'), dom, 2)
	b = appendPadded(append(b, 'T'), clock/3600, 2)
	b = appendPadded(append(b, ':'), clock/60%60, 2)
	return appendPadded(append(b, ':'), clock%60, 2)
}

// civil converts days since 1970 to a date of the Gregorian calendar. Years are counted from March,
// so that the leap day comes last, in cycles of 400 years (146,097 days).
func civil(days uint64) (year, month, dayOfMonth uint64) {
	const daysTo1970 = 719_468 // days from 0000-03-01 to 1970-01-01
	days += daysTo1970
	era, doe := days/146_097, days%146_097
	yoe := (doe - doe/1460 + doe/36_524 - doe/146_096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	m := (5*doy + 2) / 153 // month, counted from March
	year, month, dayOfMonth = era*400+yoe, m+3, doy-(153*m+2)/5+1
	if month > 12 {
		year, month = year+1, month-12
	}
	return year, month, dayOfMonth
}

func appendPadded(b []byte, v uint64, width int) []byte {
	digits := strconv.FormatUint(v, 10)
	for range width - len(digits) {
		b = append(b, '0')
	}
	return append(b, digits...)
}
