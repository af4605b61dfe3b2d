// The code of a sign-in link is in its fragment, which no server and no log sees.
const code = decodeURIComponent(location.hash.slice(1));
if (code) {
  history.replaceState(null, "", location.pathname);
  document.getElementById("code").value = code;
  document.forms[0].submit();
}
