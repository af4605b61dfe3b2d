// text-stats in Go: what a text is made of.
package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tollgate.dev/tool"
)

var component = tool.Component{
	ID:      "text-stats-go",
	Version: "0.1.0",
	State:   []tool.Key{{Name: "words-seen", Initial: 0, Reducer: tool.Add, Thread: true, Persistent: true}},
	Tools:   []tool.Tool{describe()},
}

func describe() tool.Tool {
	described := tool.New(
		"text_stats_go",
		"Counts the bytes, characters, words and lines of a text, and lists its most frequent words.",
		textStats,
	)
	described.Category = "text"
	described.Idempotent = true
	return described
}

func init() { tool.Serve(component) }

func main() {}

type args struct {
	Text    string `json:"text" desc:"The text."`
	Top     int    `json:"top" desc:"How many of the most frequent words to list." default:"3" minimum:"0" maximum:"20"`
	Rounds  int    `json:"rounds" desc:"How often to measure it." default:"1" minimum:"1" maximum:"1000000000"`
	Confirm bool   `json:"confirm" desc:"Whether to ask a person first." default:"false"`
}

type frequency struct {
	Word  string `json:"word"`
	Count int    `json:"count"`
}

type statistics struct {
	Bytes      int         `json:"bytes"`
	Characters int         `json:"characters"`
	Words      int         `json:"words"`
	Lines      int         `json:"lines"`
	Top        []frequency `json:"top"`
	Seen       int         `json:"seen"`
}

func textStats(call *tool.Call, args args) (any, error) {
	switch {
	case args.Text == "":
		return tool.Error("empty_text", "There is no text to measure."), nil
	case strings.Contains(args.Text, "\x00"):
		return nil, tool.Failed("The text holds a NUL character.")
	case args.Confirm && call.Resume == nil:
		return question(len(args.Text)), nil
	case call.Resume != nil && string(call.Resume.Value) == "false":
		return tool.Error("declined", "The person said no."), nil
	}
	call.Log(tool.LevelDebug, surroundings(call))
	call.Progress(tool.Running, 0, "measuring")
	var counts map[string]int
	for range args.Rounds {
		if call.IsCancelled() {
			return tool.Error("cancelled", "The run was cancelled."), nil
		}
		counts = countWords(args.Text)
	}
	found := statistics{
		Bytes:      len(args.Text),
		Characters: utf8.RuneCountInString(args.Text),
		Lines:      countLines(args.Text),
		Top:        mostFrequent(counts, args.Top),
	}
	for _, count := range counts {
		found.Words += count
	}
	if _, err := call.Read("words-seen", &found.Seen); err != nil {
		return nil, err
	}
	if err := call.Update("words-seen", found.Words); err != nil {
		return nil, err
	}
	for _, entry := range found.Top {
		call.StreamOutput(fmt.Sprintf("%d %s\n", entry.Count, entry.Word))
	}
	call.Progress(tool.Done, 1, fmt.Sprintf("measured %d words", found.Words))
	return found, nil
}

// surroundings says whose call it is, for the operator.
func surroundings(call *tool.Call) string {
	return fmt.Sprintf("call %s, attempt %d: agent %s, run %s, thread %s",
		call.ID, call.Attempt, call.AgentID, call.RunID, call.ThreadID)
}

func question(size int) tool.Answer {
	return tool.Suspend(tool.Ticket{
		Action:         "measure",
		Message:        fmt.Sprintf("Measure %d bytes?", size),
		Parameters:     map[string]int{"bytes": size},
		ResponseSchema: `{"type":"boolean"}`,
	})
}

func countWords(text string) map[string]int {
	counts := map[string]int{}
	for _, word := range strings.FieldsFunc(text, isBlank) {
		counts[lower(word)]++
	}
	return counts
}

func isBlank(character rune) bool { return strings.ContainsRune(" \t\n\r\v\f", character) }

func lower(word string) string {
	return strings.Map(func(character rune) rune {
		if 'A' <= character && character <= 'Z' {
			return character + 'a' - 'A'
		}
		return character
	}, word)
}

func mostFrequent(counts map[string]int, top int) []frequency {
	entries := make([]frequency, 0, len(counts))
	for word, count := range counts {
		entries = append(entries, frequency{word, count})
	}
	slices.SortFunc(entries, func(a, b frequency) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Word, b.Word))
	})
	return entries[:min(top, len(entries))]
}

func countLines(text string) int {
	lines := strings.Count(text, "\n")
	if !strings.HasSuffix(text, "\n") {
		lines++
	}
	return lines
}
