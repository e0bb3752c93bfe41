# bash completion for holdfast. It needs no bash-completion, and takes any name of a lock:
# with a colon, with spaces, within quotes.

# __holdfast_words splits the line before the cursor as the shell does. It sets words, without
# quotes, of which the last is to be completed; quote, which is open in that one; and head, the
# part of it, as typed, that the shell does not replace.
__holdfast_words() {
    local line=${COMP_LINE:0:COMP_POINT} char word= raw= i in=
    words=() quote= head=
    for ((i = 0; i < ${#line}; i++)); do
        char=${line:i:1}
        if [[ -n $quote ]]; then
            raw+=$char
            if [[ $char == "$quote" ]]; then
                quote=
            elif [[ $quote == '"' && $char == \\ && ${line:i+1:1} == [\"\\\$\`] ]]; then
                ((++i))
                word+=${line:i:1} raw+=${line:i:1}
            else
                word+=$char
            fi
            continue
        fi
        case $char in
        [[:blank:]])
            [[ -z $in ]] || words+=("$word")
            word= raw= in= head=
            continue
            ;;
        \\)
            ((++i))
            word+=${line:i:1} raw+=$char${line:i:1}
            ;;
        \" | \') quote=$char raw+=$char ;;
        *)
            word+=$char raw+=$char
            [[ $COMP_WORDBREAKS != *"$char"* ]] || head=$raw
            ;;
        esac
        in=yes
    done
    words+=("$word")
}

__holdfast_complete() {
    local words quote head lines line directive
    __holdfast_words
    COMPREPLY=()
    mapfile -t lines < <("${words[0]/#\~\//$HOME/}" __completeNoDesc "${words[@]:1}" 2>/dev/null)
    ((${#lines[@]})) || return
    directive=${lines[-1]#:}
    unset 'lines[-1]'
    [[ $directive == +([0-9]) ]] || return
    for line in "${lines[@]}"; do
        case $quote in
        \")
            line=${line//\\/\\\\} line=${line//\"/\\\"} line=${line//\$/\\\$} line=${line//\`/\\\`}
            ;;
        \') line=${line//\'/\'\\\'\'} ;;
        *)
            printf -v line %q "$line"
            [[ $line == "$head"* ]] || continue
            line=${line#"$head"}
            ;;
        esac
        COMPREPLY+=("$line")
    done
    ((directive & 2)) && compopt -o nospace
    ((directive & 4)) || compopt -o default
}

complete -F __holdfast_complete holdfast
