# fish completion for holdfast.

function __holdfast_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    # An open quote is not part of a name.
    set -l word (string unescape -- $typed 2>/dev/null; or string replace -r '^["\']' '' -- $typed)
    test -n "$word"; or set word ''
    set -l lines ($words[1] __complete $words[2..-1] "$word" 2>/dev/null)
    set -l directive (string match -r '^:([0-9]+)$' -- $lines[-1])[2]
    test -n "$directive"; or return
    set -e lines[-1]
    if test (count $lines) -gt 0
        printf '%s\n' $lines
    else if test (math "bitand($directive, 4)") -eq 0
        __fish_complete_path $word
    end
end

complete -c holdfast -e
complete -c holdfast -f -a '(__holdfast_complete)'
