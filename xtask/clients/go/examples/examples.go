// Package examples runs examples and says how each went, one line for each: ok, failed or skipped.
package examples

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"time"
)

// Patience is how long one example may take.
const Patience = 30 * time.Second

type failure struct {
	line int
	why  string
}

type skip struct{ why string }

// Skip ends the example: it can't be tried here.
func Skip(why string) { panic(skip{why}) }

func fail(format string, values ...any) {
	for depth := 2; ; depth++ {
		_, file, line, known := runtime.Caller(depth)
		if !known || strings.HasSuffix(file, "main.go") {
			panic(failure{line, fmt.Sprintf(format, values...)})
		}
	}
}

// Equal asserts that this is what the documentation says.
func Equal(got, expected any) {
	if !reflect.DeepEqual(got, expected) {
		fail("expected %#v, got %#v", expected, got)
	}
}

// Gives asserts that a call gave this, and no error.
func Gives[T any](expected T) func(T, error) {
	return func(got T, err error) {
		if err != nil {
			fail("expected %#v, got the error %v", expected, err)
		}
		Equal(got, expected)
	}
}

// Must is the value of a call that gave no error.
func Must[T any](got T, err error) T {
	No(err)
	return got
}

// No asserts that there was no error.
func No(err error) {
	if err != nil {
		fail("got the error %v", err)
	}
}

// Error asserts that there was one with this text.
func Error(err error, text string) {
	if err == nil || !strings.Contains(err.Error(), text) {
		fail("expected an error with %q, got %v", text, err)
	}
}

// True asserts that it holds.
func True(holds bool, what string) {
	if !holds {
		fail("expected %s", what)
	}
}

// Until waits until it holds, at most five seconds.
func Until(what string, holds func() bool) {
	for end := time.Now().Add(5 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			fail("expected %s within 5 s", what)
		}
	}
}

// Example runs one.
func Example(name string, work func()) {
	said := make(chan string, 1)
	go func() {
		defer func() {
			switch why := recover().(type) {
			case nil:
				said <- "ok " + name
			case skip:
				said <- fmt.Sprintf("skipped %s: %s", name, why.why)
			case failure:
				said <- fmt.Sprintf("failed %s: line %d: %s", name, why.line, strings.Join(strings.Fields(why.why), " "))
			default:
				said <- fmt.Sprintf("failed %s: %v", name, why)
			}
		}()
		work()
	}()
	select {
	case line := <-said:
		fmt.Println(line)
	case <-time.After(Patience):
		fmt.Printf("failed %s: it took more than %v\n", name, Patience)
	}
}

// End says that no example is left.
func End() { fmt.Println("end") }

// Address is where the server listens.
func Address(variable string) string { return os.Getenv(variable) }
